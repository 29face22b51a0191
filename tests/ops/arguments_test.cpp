// What ops refuse: shapes that do not fit, indices out of range, second derivatives; and what they do with extreme
// values.
#include <limits>

#include "compare.h"

namespace pmnet::ops {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

Tensor longs(std::vector<int64_t> values) { return at::tensor(values, at::kLong); }

TEST(Arguments, ThatDoNotFitAreRefused) {
  const auto on_both = [](const auto& body) {
    for (const Implementation implementation : {Implementation::kFast, Implementation::kReference}) {
      const ImplementationGuard guard(implementation);
      EXPECT_THROW(body(), c10::Error);
    }
  };
  const auto ones = [](std::vector<int64_t> sizes) { return at::ones(sizes); };
  on_both([&] { return rms_norm(ones({2, 1024}), ones({1}), 1e-6); });
  on_both([&] { return rms_norm(ones({2, 3}), ones({4}), 1e-6); });
  on_both([&] { return rms_norm_linear(ones({2, 3}), ones({4}), 1e-6, {ones({5, 3})}, {}); });
  on_both([&] { return rotary(ones({1, 2, 1, 4}), ones({2}), ones({1, 2, 2}), ones({1, 2, 2}), 1e-6); });
  on_both([&] { return rotary(ones({1, 2, 1, 4}), {}, ones({1, 2, 2}), ones({1, 1, 2}), 1e-6); });
  on_both([&] { return swiglu(ones({4, 1024}), ones({1, 8})); });
  on_both([&] { return swiglu_linear(ones({4, 8}), ones({4, 8}), ones({3, 7}), {}); });
  on_both([&] { return causal_conv(ones({1, 5, 8}), ones({3, 4}), {}, {}); });
  on_both([&] { return causal_conv(ones({1, 5, 8}), ones({8, 4}), ones({3}), {}); });
  on_both([&] { return causal_conv(ones({1, 5, 8}), ones({8, 4}), {}, ones({1, 8, 4})); });
  on_both([&] { return phase_attention(ones({1, 2, 4}), ones({1, 2, 0, 8}), ones({4, 8}), ones({4}), 1); });
  on_both([&] { return phase_attention(ones({1, 2, 4}), ones({1, 3, 2, 8}), ones({4, 8}), ones({4}), 1); });
  on_both([&] { return phase_attention(ones({1, 2, 4}), ones({1, 2, 2, 8}), ones({4, 8}), ones({4}), 3); });
  on_both([&] { return phase_values(ones({1, 2, 0, 3}), ones({1, 2, 3, 8}), ones({4, 8}), ones({4})); });
  on_both([&] { return phase_values(ones({1, 2, 1, 3}), ones({1, 2, 3, 8}), ones({4, 8}), ones({3})); });
  on_both([&] { return window_attention(ones({1, 3, 2, 4}), ones({1, 2, 2, 4}), ones({1, 2, 2, 4}), {}, 0, 1, {}); });
  on_both([&] {
    return window_attention(ones({1, 3, 2, 4}), ones({1, 3, 2, 4}), ones({1, 3, 2, 4}), longs({1}), 0, 1, {});
  });
  on_both([&] { return window_attention(ones({1, 3, 2, 4}), ones({1, 3, 2, 4}), ones({1, 3, 2, 4}), {}, -1, 1, {}); });
  on_both([&] {
    return selective_scan(ones({1, 3, 2}), ones({1, 3, 2}), ones({2, 4}), ones({1, 3, 3}), ones({1, 3, 4}), ones({2}),
                          ones({1, 3, 2}), {})
        .output;
  });
}

TEST(Arguments, IndicesOutOfRangeAreRefused) {
  EXPECT_THROW(cross_entropy(at::randn({3, 8}), at::randn({16, 8}), longs({1, 99999999, 2})), c10::Error);
  EXPECT_THROW(cross_entropy(at::randn({3, 8}), at::randn({16, 8}), longs({1, 3, 2}).to(at::kInt)), c10::Error);
  const Tensor far = at::full({1, 6}, 1'000'000, at::kLong);
  EXPECT_THROW(segmented_scan(at::rand({1, 6, 4}), at::randn({1, 6, 8}), far, 1, {}, {}, {}, false), c10::Error);
  EXPECT_THROW(circle_features({}, at::rand({2, 4, 8}), far, false), c10::Error);
  EXPECT_THROW(circle_features({}, at::rand({0, 4, 8}), at::full({1, 6}, -1, at::kLong), false), c10::Error);
}

TEST(Gradients, CannotBeDifferentiatedAgain) {
  const Tensor x = at::randn({2, 8}).requires_grad_(), weight = at::randn({8}).requires_grad_();
  const auto gradient_of = [&](const Tensor& y) {
    return torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  };
  for (const Tensor& y : {rms_norm(x, weight, 1e-6), swiglu(x, x), cross_entropy(x, at::ones({3, 8}), longs({1, 2}))}) {
    const Tensor gradient = gradient_of(y);
    EXPECT_TRUE(gradient.requires_grad());
    EXPECT_THROW(torch::autograd::grad({gradient.sum()}, {x}), c10::Error);
  }
  const ImplementationGuard guard(Implementation::kReference);
  EXPECT_TRUE(torch::autograd::grad({gradient_of(rms_norm(x, weight, 1e-6)).square().sum()}, {x})[0].defined());
}

// Infinite, huge, tiny and denormal inputs: both implementations give the same, NaN included.
TEST(ExtremeValues, AreTheSameInBothImplementations) {
  const Tensor x = at::tensor({0.0f, -0.0f, 1e-45f, -1e-40f, 1e-30f, 1.0f, -200.0f, -1000.0f, 1e10f, -1e18f, 1e30f,
                               -1e38f, kInfinity, -kInfinity, kNaN})
                       .unsqueeze(1);
  const Tensor rows = at::cat({x, at::full_like(x, 0.5)}, 1), one = at::ones({2});
  const auto same = [](const char* what, const auto& function) {
    const Tensor fast = function();
    const ImplementationGuard guard(Implementation::kReference);
    const Tensor reference = function();
    EXPECT_TRUE(at::allclose(fast, reference, 1e-5, 1e-30, /*equal_nan=*/true)) << what << "\n"
                                                                                << at::cat({fast, reference}, -1);
  };
  same("rms_norm", [&] { return rms_norm(rows, one, 1e-6); });
  same("swiglu", [&] { return swiglu(rows, at::ones_like(rows)); });
  same("causal_conv", [&] { return causal_conv(rows.unsqueeze(0), at::ones({2, 1}), {}, {}).squeeze(0); });
  same("cross_entropy", [&] { return cross_entropy(rows, at::eye(2), at::zeros({x.size(0)}, at::kLong)); });
  same("circle_features", [&] {
    return circle_features({}, rows.unsqueeze(0), at::zeros({1, 1}, at::kLong), false).view({x.size(0), 4});
  });
  same("phase_attention", [&] {
    return phase_attention(rows.unsqueeze(0), at::full({1, 1, 3, 4}, 0.3), at::ones({2, 4}), one, 1).squeeze(0);
  });
  // Finite updates of any size: huge angles leave the range of the kernel and take the reference.
  const Tensor finite = rows.narrow(0, 0, 12).contiguous();
  const auto scan = [&] {
    return *segmented_scan(at::ones({1, 12, 1}), finite.unsqueeze(0), at::zeros({1, 12}, at::kLong), 1, {}, {}, {},
                           false)
                .path.turns;
  };
  const Tensor fast = scan();
  const ImplementationGuard guard(Implementation::kReference);
  EXPECT_TRUE(at::equal(fast, scan()));
}

TEST(NaN, CannotBecomeATurn) {
  const Tensor weights = at::ones({1, 2, 1}), group = at::zeros({1, 2}, at::kLong);
  for (const float bad : {kNaN, kInfinity}) {
    const Tensor update = at::full({1, 2, 3}, bad);
    for (const Implementation implementation : {Implementation::kFast, Implementation::kReference}) {
      const ImplementationGuard guard(implementation);
      {
        const at::NoGradGuard inference;
        EXPECT_THROW(segmented_scan(weights, update, group, 1, {}, {}, {}, false), c10::Error);
        EXPECT_NO_THROW(segmented_scan(weights, update, at::full({1, 2}, -1, at::kLong), 1, {}, {}, {}, false));
      }
      const Tensor leaf =
          weights.clone().requires_grad_();  // training: the gradient is not finite, which its guard sees
      const auto out = segmented_scan(leaf, update, group, 1, {}, {}, {}, false);
      EXPECT_FALSE(torch::autograd::grad({out.path.angle->sum()}, {leaf})[0].isfinite().any().item<bool>());
    }
  }
  const Tensor features = circle_features({}, at::full({1, 2, 3}, kNaN), group, false);
  EXPECT_TRUE(features.isnan().all().item<bool>());
}

}  // namespace
}  // namespace pmnet::ops
