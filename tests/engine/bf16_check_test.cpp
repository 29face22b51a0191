#include "engine/bf16_check.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace pmnet {
namespace {

TEST(Bf16Check, TheGuardMakesBf16Usable) {
  EXPECT_NE(check_bf16(), Bf16Support::kNone) << "a bf16 product dies or is wrong even without oneDNN";
}

TEST(Bf16Check, LeavesThisProcessUntouched) {
  const char* before = std::getenv("ONEDNN_MAX_CPU_ISA");
  const bool one_dnn = at::globalContext().userEnabledMkldnn();
  check_bf16();
  EXPECT_EQ(std::getenv("ONEDNN_MAX_CPU_ISA"), before);
  EXPECT_EQ(at::globalContext().userEnabledMkldnn(), one_dnn);
}

TEST(Bf16Check, WorksAfterThreadsHaveStarted) {
  at::matmul(at::ones({256, 256}), at::ones({256, 256}));  // makes the thread pool that the child will lack
  EXPECT_NE(check_bf16(), Bf16Support::kNone);
}

TEST(Bf16Check, AProductInThisProcessAgrees) {
  const Bf16Support support = check_bf16();
  if (support != Bf16Support::kAsIs) GTEST_SKIP() << "a product here could end the test: " << describe(support);
  const at::Tensor product = at::matmul(at::full({64, 64}, 0.5, at::kBFloat16), at::full({64, 64}, 2.0, at::kBFloat16));
  EXPECT_EQ(product.min().item<float>(), 64.0f);
  EXPECT_EQ(product.max().item<float>(), 64.0f);
}

TEST(Bf16Check, ApplyingTurnsOneDnnOff) {
  const bool before = at::globalContext().userEnabledMkldnn();
  apply_bf16_support(Bf16Support::kAsIs);
  EXPECT_EQ(at::globalContext().userEnabledMkldnn(), before);
  apply_bf16_support(Bf16Support::kWithoutOneDnn);
  EXPECT_FALSE(at::globalContext().userEnabledMkldnn());
  at::globalContext().setUserEnabledMkldnn(before);
}

}  // namespace
}  // namespace pmnet
