#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "ops/common.h"

namespace pmnet::ops {
namespace {

// Python calls ops by these names; they run the same checked functions as C++.
TEST(Registration, EveryOpIsThere) {
  for (const std::string name :
       {"rms_norm", "rotary", "window_attention", "swiglu", "swiglu_linear", "rms_norm_linear", "circle_features",
        "phase_attention", "phase_values", "segmented_scan", "cross_entropy", "causal_conv", "selective_scan"}) {
    const auto op = c10::Dispatcher::singleton().findSchema({"pmnet::" + name, ""});
    ASSERT_TRUE(op.has_value()) << name;
    EXPECT_TRUE(op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) << name;
  }
}

TEST(Registration, CallsThroughTheDispatcherHaveGradientsAndChecks) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("pmnet::rms_norm", "").typed<decltype(rms_norm)>();
  const Tensor x = at::randn({2, 8}).requires_grad_();
  const Tensor y = op.call(x, at::ones({8}), 1e-6);
  EXPECT_TRUE(at::equal(y, rms_norm(x, at::ones({8}), 1e-6)));
  EXPECT_TRUE(torch::autograd::grad({y.sum()}, {x})[0].defined());
  EXPECT_THROW(op.call(x, at::ones({1}), 1e-6), c10::Error);
}

TEST(Registration, MetaTensorsGetShapesFromTheReference) {
  const auto meta = at::TensorOptions(at::kMeta);
  const Tensor y = rms_norm(at::empty({2, 8}, meta), at::empty({8}, meta), 1e-6);
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{2, 8}));
  const Tensor loss =
      cross_entropy(at::empty({3, 8}, meta), at::empty({5, 8}, meta), at::empty({3}, meta.dtype(at::kLong)));
  EXPECT_EQ(loss.sizes(), (std::vector<int64_t>{3}));
}

TEST(ImplementationGuard, RestoresTheChoiceBeforeIt) {
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
