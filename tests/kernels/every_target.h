// Runs a check on every instruction set that was compiled and this machine has, not only on the best one.
#pragma once
#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace pmnet::kernels {

template <typename Check>
void on_every_target(const Check& check) {
  const int64_t all = hwy::SupportedTargets();
  for (int64_t rest = all & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace pmnet::kernels
