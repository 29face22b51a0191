// circle_features, phase_attention and phase_values: what a token reads from the memory on its path.
#include "phase_cases.h"

namespace pmnet::ops {
namespace {

struct FeatureCase {
  int64_t batch, time, groups, slots, size;
  bool path = true, unconstrained = false;
};

void check_features(const FeatureCase& c, bool derivative = false) {
  SCOPED_TRACE(fmt::format("B{} T{} G{} N{} M{} path {} unconstrained {}", c.batch, c.time, c.groups, c.slots, c.size,
                           c.path, c.unconstrained));
  Random random(20);
  const Tensor group = random.integers(-1, c.groups, {c.batch, c.time});
  const auto function = [&](const std::vector<Tensor>& in) {
    Phases path;
    if (c.path) path = c.unconstrained ? Phases{std::nullopt, in[1]} : phases_of(in[1], at::kInt);
    return std::vector{circle_features(path, in[0], group, c.unconstrained)};
  };
  std::vector<Tensor> inputs{random.normal({c.groups, c.slots, c.size}, 3)};
  if (c.path) inputs.push_back(random.normal({c.batch, c.time, c.slots, c.size}));
  derivative ? expect_op_is_right(function, inputs) : expect_op_agrees(function, inputs);
}

TEST(CircleFeatures, AgreesOnAwkwardShapes) {
  for (const int64_t size : {1, 2, 7, 8, 9, 15, 16, 17, 33}) check_features({2, 3, 4, 3, size});
  for (const int64_t slots : {1, 2, 3, 4, 5}) check_features({2, 3, 4, slots, 5, /*path=*/false});
  for (const int64_t time : {0, 1, 50}) check_features({2, time, 3, 2, 5});
  check_features({1, 3, 1, 2, 5});    // one group
  check_features({1, 3, 100, 2, 5});  // more groups than tokens
  check_features({2, 4, 3, 2, 7, true, /*unconstrained=*/true});
}

TEST(CircleFeatures, GradientIsTheDerivative) {
  check_features({2, 3, 3, 2, 3}, /*derivative=*/true);
  check_features({1, 3, 2, 2, 3, /*path=*/false}, true);
  check_features({1, 3, 2, 2, 3, true, /*unconstrained=*/true}, true);
}

TEST(CircleFeatures, DoNotChangeWithAFullTurn) {
  Random random(21);
  const Tensor anchors = random.normal({2, 3, 9}).to(at::kFloat), group = at::tensor({0, 1, 1}, at::kLong).view({1, 3});
  const Tensor once = circle_features({}, anchors, group, false);
  const Tensor again = circle_features({}, anchors + 2 * M_PI, group, false);
  EXPECT_LE((once - again).abs().max().item<float>(), 1e-6);
}

TEST(CircleFeatures, RefusesAGroupThatIsNotThere) {
  EXPECT_THROW(circle_features({}, at::zeros({2, 3, 4}), at::full({1, 1}, 2, at::kLong), false), c10::Error);
}

struct ReadCase {
  int64_t batch, time, slots, heads, size;
  bool shared = false;
};

std::vector<Tensor> attention_inputs(const ReadCase& c) {
  Random random(22);
  const int64_t width = c.heads * c.size;
  return {random.normal({c.batch, c.time, width}),
          random.normal({c.shared ? 1 : c.batch, c.shared ? 1 : c.time, c.slots, 2 * c.size}),
          random.normal({width, 2 * c.size}, 1 / std::sqrt(2.0 * c.size)), random.normal({width}, 0.5)};
}

void check_attention(const ReadCase& c, bool derivative = false) {
  SCOPED_TRACE(fmt::format("B{} T{} N{} R{} M{} shared {}", c.batch, c.time, c.slots, c.heads, c.size, c.shared));
  const auto function = [&](const std::vector<Tensor>& in) {
    return std::vector{phase_attention(in[0], in[1], in[2], in[3], c.heads)};
  };
  derivative ? expect_op_is_right(function, attention_inputs(c)) : expect_op_agrees(function, attention_inputs(c));
}

TEST(PhaseAttention, AgreesOnAwkwardShapes) {
  for (const bool shared : {false, true}) {
    for (const int64_t size : {1, 2, 7, 8, 9, 17, 33}) check_attention({2, 3, 3, 2, size, shared});
    for (const int64_t slots : {1, 2, 3, 4, 5}) check_attention({1, 4, slots, 3, 5, shared});
    for (const int64_t time : {0, 1, 70}) check_attention({2, time, 4, 2, 6, shared});
    check_attention({1, 1, 4, 1, 6, shared});
  }
}

TEST(PhaseAttention, AgreesAcrossBlocks) { check_attention({1, 250, 5, 8, 128}); }

TEST(PhaseAttention, GradientIsTheDerivative) {
  check_attention({2, 2, 3, 2, 3}, /*derivative=*/true);
  check_attention({2, 3, 3, 1, 3, /*shared=*/true}, true);
}

TEST(PhaseAttention, WeightsOfAHeadSumToOneAndEqualSlotsTie) {
  auto in = attention_inputs({1, 6, 4, 2, 9});
  for (Tensor& x : in) x = x.to(at::kFloat);
  const Tensor a = phase_attention(in[0], in[1], in[2], in[3], 2);
  EXPECT_TRUE(at::allclose(a.sum(-1), at::ones({1, 6, 2})));
  const Tensor same = in[1].narrow(1, 0, 1).narrow(2, 0, 1).expand({1, 1, 4, 18});
  for (const Implementation implementation : {Implementation::kFast, Implementation::kReference}) {
    const ImplementationGuard guard(implementation);
    const Tensor tied = phase_attention(in[0], same, in[2], in[3], 2);
    EXPECT_TRUE(at::equal(tied, tied.narrow(3, 0, 1).expand_as(tied)));
  }
}

TEST(PhaseAttention, RefusesFeaturesOfOtherTokens) {
  const auto in = attention_inputs({2, 3, 4, 1, 4});
  EXPECT_THROW(phase_attention(in[0], in[1].narrow(1, 0, 2), in[2], in[3], 1), c10::Error);
}

void check_values(const ReadCase& c, bool derivative = false) {
  SCOPED_TRACE(fmt::format("B{} T{} N{} R{} M{}", c.batch, c.time, c.slots, c.heads, c.size));
  Random random(23);
  // The weights of a head must sum to one: softmax is part of the case.
  const auto function = [](const std::vector<Tensor>& in) {
    return std::vector{phase_values(in[0].softmax(-1), in[1], in[2], in[3])};
  };
  const std::vector<Tensor> inputs{random.normal({c.batch, c.time, c.heads, c.slots}),
                                   random.normal({c.batch, c.time, c.slots, 2 * c.size}),
                                   random.normal({c.heads * c.size, 2 * c.size}), random.normal({c.heads * c.size})};
  derivative ? expect_op_is_right(function, inputs) : expect_op_agrees(function, inputs);
}

TEST(PhaseValues, AgreesOnAwkwardShapes) {
  for (const int64_t size : {1, 2, 7, 8, 9, 17}) check_values({2, 3, 3, 2, size});
  for (const int64_t slots : {1, 2, 3, 4, 5}) check_values({1, 4, slots, 3, 5});
  for (const int64_t time : {0, 1, 1030}) check_values({1, time, 4, 2, 3});
}

TEST(PhaseValues, GradientIsTheDerivative) { check_values({2, 2, 3, 2, 3}, /*derivative=*/true); }

}  // namespace
}  // namespace pmnet::ops
