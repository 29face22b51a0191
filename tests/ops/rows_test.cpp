// rms_norm, rotary, swiglu and cross_entropy: the ops that work row by row.
#include "compare.h"

namespace pmnet::ops {
namespace {

constexpr double kEps = 1e-6;

TEST(RmsNorm, AgreesOnAwkwardShapes) {
  Random random(1);
  for (const int64_t width : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 65}) {
    for (const int64_t rows : {0, 1, 2, 5, 40}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, width));
      expect_op_agrees([](const auto& in) { return std::vector{rms_norm(in[0], in[1], kEps)}; },
                       {random.normal({rows, width}, 3), random.normal({width})});
    }
  }
}

TEST(RmsNorm, GradientIsTheDerivative) {
  Random random(2);
  expect_op_is_right([](const auto& in) { return std::vector{rms_norm(in[0], in[1], kEps)}; },
                     {random.normal({2, 3, 5}), random.normal({5})});
}

TEST(RmsNorm, ARowOfZerosStaysFinite) {
  const Tensor y = rms_norm(at::zeros({1, 9}), at::ones({9}), kEps);
  EXPECT_EQ(y.abs().max().item<float>(), 0);
}

TEST(RmsNorm, NamesTheExpectedWeight) { EXPECT_THROW(rms_norm(at::zeros({2, 3}), at::ones({4}), kEps), c10::Error); }

// x [B,T,A,Dh], rotary tables for each row or for all.
struct RotaryCase {
  int64_t batch, time, heads, width;
  bool norm, shared_table;
};

void check_rotary(const RotaryCase& c, bool derivative) {
  SCOPED_TRACE(
      fmt::format("B{} T{} A{} Dh{} norm {} shared {}", c.batch, c.time, c.heads, c.width, c.norm, c.shared_table));
  Random random(3);
  const Tensor angle = random.normal({c.shared_table ? 1 : c.batch, c.time, c.width / 2}, 3);
  const auto function = [&](const std::vector<Tensor>& in) {
    const auto dtype = in[0].scalar_type();
    return std::vector{
        rotary(in[0], c.norm ? OptTensor(in[1]) : std::nullopt, angle.cos().to(dtype), angle.sin().to(dtype), kEps)};
  };
  std::vector<Tensor> inputs{random.normal({c.batch, c.time, c.heads, c.width})};
  if (c.norm) inputs.push_back(random.normal({c.width}));
  derivative ? expect_op_is_right(function, inputs) : expect_op_agrees(function, inputs);
}

TEST(Rotary, AgreesOnAwkwardShapes) {
  for (const bool norm : {true, false}) {
    for (const int64_t width : {2, 4, 6, 14, 16, 18, 34, 64}) check_rotary({2, 5, 3, width, norm, false}, false);
    for (const int64_t time : {0, 1, 2, 33}) check_rotary({2, time, 1, 10, norm, true}, false);
  }
}

TEST(Rotary, GradientIsTheDerivative) {
  for (const bool norm : {true, false}) check_rotary({2, 2, 2, 6, norm, false}, true);
}

// Weights near one let the backward pass work from the output; one of zero does not.
TEST(Rotary, GradientHoldsWhetherOrNotTheInputFollowsFromTheOutput) {
  Random random(31);
  const Tensor angle = random.normal({2, 5, 9}, 3);
  const auto function = [&](const std::vector<Tensor>& in) {
    const auto dtype = in[0].scalar_type();
    return std::vector{rotary(in[0], in[1], angle.cos().to(dtype), angle.sin().to(dtype), kEps)};
  };
  const Tensor x = random.normal({2, 5, 3, 18}), near_one = 1 + 0.2 * random.normal({18}).tanh();
  Tensor with_zero = near_one.clone();
  with_zero[7] = 0;
  expect_op_is_right(function, {x, near_one});
  expect_op_is_right(function, {x, with_zero});
}

TEST(Rotary, KeepsLengthsWithoutNorm) {
  Random random(4);
  const Tensor x = random.normal({1, 3, 2, 8}).to(at::kFloat), angle = random.normal({1, 3, 4}).to(at::kFloat);
  const Tensor y = rotary(x, std::nullopt, angle.cos(), angle.sin(), kEps);
  EXPECT_TRUE(at::allclose(x.norm(2, -1), y.norm(2, -1), 1e-5, 1e-6));
}

TEST(Swiglu, AgreesOnAwkwardShapes) {
  Random random(5);
  for (const int64_t count : {0, 1, 3, 7, 8, 9, 16, 17, 8193 * 2})
    expect_op_agrees([](const auto& in) { return std::vector{swiglu(in[0], in[1])}; },
                     {random.normal({count}, 4), random.normal({count})});
}

TEST(Swiglu, GradientIsTheDerivative) {
  Random random(6);
  expect_op_is_right([](const auto& in) { return std::vector{swiglu(in[0], in[1])}; },
                     {random.normal({3, 5}, 3), random.normal({3, 5})});
}

TEST(Swiglu, SurvivesHugeGates) {
  const Tensor gate = at::tensor({-1e4f, -100.0f, 100.0f, 1e4f}).requires_grad_(), up = at::ones({4});
  const Tensor y = swiglu(gate, up);
  EXPECT_TRUE(at::allclose(y, at::tensor({0.0f, 0.0f, 100.0f, 1e4f})));
  const auto slope = torch::autograd::grad({y.sum()}, {gate})[0];
  EXPECT_TRUE(at::allclose(slope, at::tensor({0.0f, 0.0f, 1.0f, 1.0f})));
}

TEST(SwigluLinear, AgreesAndItsGradientIsTheDerivative) {
  Random random(32);
  const auto plain = [](const auto& in) { return std::vector{swiglu_linear(in[0], in[1], in[2], std::nullopt)}; };
  const auto biased = [](const auto& in) { return std::vector{swiglu_linear(in[0], in[1], in[2], in[3])}; };
  expect_op_is_right(plain, {random.normal({2, 3, 5}), random.normal({2, 3, 5}), random.normal({4, 5})});
  expect_op_is_right(biased, {random.normal({3, 5}), random.normal({3, 5}), random.normal({4, 5}), random.normal({4})});
  expect_op_agrees(plain, {random.normal({40, 33}), random.normal({40, 33}), random.normal({17, 33}, 0.2)});
  EXPECT_THROW(swiglu_linear(at::zeros({2, 3}), at::zeros({2, 3}), at::zeros({4, 5}), std::nullopt), c10::Error);
}

TEST(RmsNormLinear, AgreeAndTheirGradientIsTheDerivative) {
  Random random(33);
  const auto plain = [](const auto& in) { return rms_norm_linear(in[0], in[1], kEps, {in[2], in[3]}, {}); };
  const auto biased = [](const auto& in) {
    return rms_norm_linear(in[0], in[1], kEps, {in[2], in[3]}, {in[4], in[5]});
  };
  const Tensor x = random.normal({2, 3, 5}), norm = random.normal({5});
  const Tensor first = random.normal({4, 5}), second = random.normal({7, 5});
  expect_op_is_right(plain, {x, norm, first, second});
  expect_op_is_right(biased, {x, norm, first, second, random.normal({4}), random.normal({7})});
  expect_op_agrees(
      plain, {random.normal({40, 33}), random.normal({33}), random.normal({9, 33}, 0.2), random.normal({16, 33}, 0.2)});
}

TEST(RmsNormLinear, AnOutputThatNobodyUsesHasNoGradient) {
  Random random(34);
  const auto first_only = [](const auto& in) {
    return std::vector{rms_norm_linear(in[0], in[1], kEps, {in[2], in[3]}, {})[0]};
  };
  expect_op_is_right(first_only,
                     {random.normal({3, 5}), random.normal({5}), random.normal({4, 5}), random.normal({2, 5})});
}

TEST(RmsNormLinear, RefuseWeightsThatDoNotFit) {
  const Tensor x = at::zeros({2, 3}), norm = at::ones({3});
  EXPECT_THROW(rms_norm_linear(x, norm, kEps, {at::zeros({4, 5})}, {}), c10::Error);
  EXPECT_THROW(rms_norm_linear(x, norm, kEps, {at::zeros({4, 3}), at::zeros({4, 3})}, {at::zeros({4})}), c10::Error);
}

TensorFunction loss_of(const Tensor& targets) {
  return [targets](const std::vector<Tensor>& in) { return std::vector{cross_entropy(in[0], in[1], targets)}; };
}

TEST(CrossEntropy, AgreesOnAwkwardShapes) {
  Random random(9);
  for (const int64_t vocab : {1, 2, 7, 8, 9, 17, 384}) {
    for (const int64_t rows : {0, 1, 3, 40}) {
      SCOPED_TRACE(fmt::format("{} rows, vocabulary {}", rows, vocab));
      expect_op_agrees(loss_of(random.integers(-1, vocab, {rows})),
                       {random.normal({rows, 6}, 2), random.normal({vocab, 6})});
    }
  }
}

TEST(CrossEntropy, GradientIsTheDerivative) {
  Random random(10);
  expect_op_is_right(loss_of(at::tensor({2, -1, 0, 4}, at::kLong)), {random.normal({4, 3}), random.normal({5, 3})});
}

TEST(CrossEntropy, UnscoredRowsAreZeroAndHaveNoGradient) {
  Random random(11);
  const Tensor hidden = random.normal({3, 4}).to(at::kFloat).requires_grad_();
  const Tensor weight = random.normal({9, 4}).to(at::kFloat).requires_grad_();
  const Tensor losses = cross_entropy(hidden, weight, at::full({3}, -1, at::kLong));
  EXPECT_EQ(losses.abs().max().item<float>(), 0);
  for (const Tensor& gradient : torch::autograd::grad({losses.sum()}, {hidden, weight}))
    EXPECT_EQ(gradient.abs().max().item<float>(), 0);
}

TEST(CrossEntropy, SurvivesHugeLogits) {
  const Tensor hidden = at::tensor({1e4f, -1e4f}).view({2, 1}), weight = at::tensor({1.0f, -1.0f, 0.5f}).view({3, 1});
  const Tensor losses = cross_entropy(hidden, weight, at::tensor({0, 0}, at::kLong));
  EXPECT_TRUE(at::allclose(losses, at::tensor({0.0f, 2e4f})));
}

TEST(CrossEntropy, UniformLogitsCostLogOfTheVocabulary) {
  const Tensor losses = cross_entropy(at::zeros({2, 3}), at::ones({384, 3}), at::tensor({0, 383}, at::kLong));
  EXPECT_TRUE(at::allclose(losses, at::full({2}, std::log(384.0f))));
}

TEST(CrossEntropy, RefusesATargetOutsideTheVocabulary) {
  EXPECT_THROW(cross_entropy(at::zeros({1, 3}), at::ones({5, 3}), at::tensor({5}, at::kLong)), c10::Error);
}

}  // namespace
}  // namespace pmnet::ops
