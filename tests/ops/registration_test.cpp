#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "ops/common.h"

namespace pmnet::ops {
namespace {

// A CPU kernel without its autograd twin would silently lose the gradient; without the composite other devices have
// nothing.
TEST(Registration, EveryOpHasBothPathsAndAGradient) {
  for (const std::string name :
       {"rms_norm", "rotary", "window_attention", "swiglu", "swiglu_linear", "rms_norm_linear", "circle_features",
        "phase_attention", "phase_values", "segmented_scan", "cross_entropy", "causal_conv", "selective_scan"}) {
    const auto op = c10::Dispatcher::singleton().findSchema({"pmnet::" + name, ""});
    ASSERT_TRUE(op.has_value()) << name;
    for (const auto key :
         {c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU, c10::DispatchKey::CompositeImplicitAutograd})
      EXPECT_TRUE(op->hasKernelForDispatchKey(key)) << name << " " << c10::toString(key);
  }
}

TEST(ImplementationGuard, RestoresThePathBeforeIt) {
  EXPECT_EQ(current_implementation(), Implementation::kFast);
  {
    const ImplementationGuard reference(Implementation::kReference);
    {
      const ImplementationGuard fast(Implementation::kFast);
      EXPECT_EQ(current_implementation(), Implementation::kFast);
    }
    EXPECT_EQ(current_implementation(), Implementation::kReference);
  }
  EXPECT_EQ(current_implementation(), Implementation::kFast);
}

// at::parallel_for is serial in a file compiled without OpenMP.
TEST(Ranges, RunOnSeveralThreadsAndCoverEveryRowOnce) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::vector<int> visits(1000, 0);
  for_each_range(1000, num_ranges(1000, 1), [&](int64_t, int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    for (int64_t row = begin; row < end; ++row) ++visits[row];
  });
  at::set_num_threads(before);
  EXPECT_EQ(threads.size(), 2u);
  EXPECT_EQ(visits, std::vector<int>(1000, 1));
}

}  // namespace
}  // namespace pmnet::ops
