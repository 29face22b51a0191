// One case of an op serves three questions: does each implementation in float agree with the reference in double, with
// contiguous and with strided inputs, in values and in every gradient; and is the reference's gradient the derivative.
#pragma once
#include <gtest/gtest.h>

#include "ops/ops.h"
#include "support/differences.h"
#include "support/gradcheck.h"

namespace pmnet::ops {

// Random inputs; every value is a float, so float and double see the same numbers.
class Random {
 public:
  explicit Random(uint64_t seed) : generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}
  Tensor normal(at::IntArrayRef sizes, double scale = 1) {
    return (at::randn(sizes, generator_, at::kFloat) * scale).to(at::kDouble);
  }
  Tensor integers(int64_t low, int64_t high, at::IntArrayRef sizes) {
    return at::randint(low, high, sizes, generator_, at::kLong);
  }

 private:
  at::Generator generator_;
};

enum class Layout { kContiguous, kStrided };

inline Tensor laid_out(const Tensor& x, Layout layout) {
  if (layout == Layout::kContiguous || x.dim() == 0) return x.contiguous().clone();
  std::vector<int64_t> wide = x.sizes().vec();
  wide.back() *= 2;
  Tensor spread = at::empty(wide, x.options()).slice(-1, 0, wide.back(), 2);
  return spread.copy_(x);
}

// Outputs, then one gradient per input; zero where an output does not depend on it.
inline std::vector<Tensor> values_and_gradients(const TensorFunction& function, const std::vector<Tensor>& inputs,
                                                at::ScalarType dtype, Implementation implementation, Layout layout) {
  const ImplementationGuard guard(implementation);
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(laid_out(input.to(dtype), layout).requires_grad_());
  std::vector<Tensor> all = function(leaves);
  const Tensor loss = project(all);
  std::vector<Tensor> gradients(leaves.size());
  if (loss.requires_grad()) gradients = torch::autograd::grad({loss}, leaves, {}, std::nullopt, false, true);
  for (size_t i = 0; i < leaves.size(); ++i)
    all.push_back(gradients[i].defined() ? gradients[i] : at::zeros_like(leaves[i]));
  return all;
}

struct Difference {
  double error = 0;   // of the tensor's largest entry or of 1, the size of all inputs, whichever is larger
  std::string where;  // "fast, strided: gradient 2"
};

// The largest difference of an implementation in float from the reference in double. NaN counts as infinite.
inline Difference difference_from_reference(const TensorFunction& function, const std::vector<Tensor>& inputs) {
  const auto want =
      values_and_gradients(function, inputs, at::kDouble, Implementation::kReference, Layout::kContiguous);
  const size_t num_outputs = want.size() - inputs.size();
  Difference worst;
  for (const Implementation implementation : {Implementation::kFast, Implementation::kReference}) {
    for (const Layout layout : {Layout::kContiguous, Layout::kStrided}) {
      const auto got = values_and_gradients(function, inputs, at::kFloat, implementation, layout);
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(got[i].sizes(), want[i].sizes());
        if (want[i].numel() == 0 || got[i].sizes() != want[i].sizes()) continue;
        const double scale = std::max(want[i].abs().max().item<double>(), 1.0);
        const double error = largest_difference(got[i], want[i]) / scale;
        if (error <= worst.error) continue;
        worst = {error, fmt::format("{}, {}: {} {}", implementation == Implementation::kFast ? "fast" : "reference",
                                    layout == Layout::kStrided ? "strided" : "contiguous",
                                    i < num_outputs ? "output" : "gradient", i < num_outputs ? i : i - num_outputs)};
      }
    }
  }
  return worst;
}

constexpr double kFloatLimit = 1e-5;

inline void expect_op_agrees(const TensorFunction& function, const std::vector<Tensor>& inputs,
                             double limit = kFloatLimit) {
  const Difference difference = difference_from_reference(function, inputs);
  EXPECT_LE(difference.error, limit) << difference.where;
}

inline void expect_op_is_right(const TensorFunction& function, const std::vector<Tensor>& inputs,
                               double limit = kFloatLimit) {
  expect_op_agrees(function, inputs, limit);
  EXPECT_EQ(gradient_mismatch(function, inputs), "");
}

}  // namespace pmnet::ops
