#include "same_bits.h"

namespace pmnet::ops {
namespace {

// x, weight, bias, past
std::vector<Tensor> conv_inputs(uint64_t seed, int64_t B, int64_t T, int64_t E, int64_t K) {
  Random random(seed);
  return {random.normal({B, T, E}), random.normal({E, K}), random.normal({E}), random.normal({B, E, K - 1})};
}

std::vector<Tensor> conv(const std::vector<Tensor>& x) { return {causal_conv(x[0], x[1], x[2], x[3])}; }

// Around the ends of vectors and slabs; kernels of one step and kernels longer than the text.
TEST(CausalConv, AgreesOnAwkwardShapes) {
  struct Shape {
    int64_t B, T, E, K;
  };
  for (const auto& [B, T, E, K] : std::vector<Shape>{{1, 0, 8, 4},
                                                     {1, 1, 1, 1},
                                                     {2, 1, 64, 4},
                                                     {1, 2, 9, 4},
                                                     {3, 31, 65, 4},
                                                     {1, 5, 130, 7},
                                                     {2, 40, 16, 1},
                                                     {1, 3, 8, 9}}) {
    SCOPED_TRACE(fmt::format("B{} T{} E{} K{}", B, T, E, K));
    expect_op_agrees(conv, conv_inputs(1, B, T, E, K));
    expect_op_agrees([](const auto& x) { return std::vector{causal_conv(x[0], x[1], std::nullopt, std::nullopt)}; },
                     conv_inputs(2, B, T, E, K));
  }
}

TEST(CausalConv, GradientIsTheDerivative) { expect_op_is_right(conv, conv_inputs(3, 2, 5, 3, 4)); }

TEST(CausalConv, WideInputGivesTheSame) {
  const Tensor view = at::randn({2, 11, 48}).narrow(2, 0, 24), weight = at::randn({24, 4});
  EXPECT_TRUE(causal_conv(view, weight, std::nullopt, std::nullopt)
                  .equal(causal_conv(view.contiguous(), weight, at::zeros({24}), at::zeros({2, 24, 3}))));
}

TEST(CausalConv, SameBitsOnAnyNumberOfThreads) { expect_same_bits_on_any_threads(conv, conv_inputs(4, 3, 70, 200, 4)); }

TEST(CausalConv, RefusesShapesThatDoNotFit) {
  EXPECT_THROW(causal_conv(at::zeros({1, 2, 8}), at::zeros({7, 4}), std::nullopt, std::nullopt), c10::Error);
  EXPECT_THROW(causal_conv(at::zeros({1, 2, 8}), at::zeros({8, 4}), std::nullopt, at::zeros({1, 8, 4})), c10::Error);
}

}  // namespace
}  // namespace pmnet::ops
