#include "phase_cases.h"

namespace pmnet::ops {
namespace {

enum class Groups { kRandom, kAllInOne, kWithPadding, kAllPadding };

struct ScanCase {
  int64_t batch = 2, time = 9, groups = 3, slots = 3, size = 5;
  Groups which = Groups::kRandom;
  bool path = true, initial = true, scaled = false, unconstrained = false;
};

Tensor groups_of(const ScanCase& c, Random& random) {
  if (c.which == Groups::kAllInOne) return at::full({c.batch, c.time}, c.groups - 1, at::kLong);
  if (c.which == Groups::kAllPadding) return at::full({c.batch, c.time}, -1, at::kLong);
  return random.integers(c.which == Groups::kWithPadding ? -1 : 0, c.groups, {c.batch, c.time});
}

void check_scan(const ScanCase& c, bool derivative = false) {
  SCOPED_TRACE(fmt::format("B{} T{} G{} N{} M{} groups {} path {} initial {} scaled {} unconstrained {}", c.batch,
                           c.time, c.groups, c.slots, c.size, static_cast<int>(c.which), c.path, c.initial, c.scaled,
                           c.unconstrained));
  Random random(30);
  const Tensor group = groups_of(c, random);
  OptTensor scale;
  if (c.scaled) scale = (random.normal({c.batch, c.groups}).abs() + 0.1).to(at::kFloat);
  const auto function = [&](const std::vector<Tensor>& in) {
    const auto phases = [&](const Tensor& angle, at::ScalarType turns) {
      return c.unconstrained ? Phases{std::nullopt, angle} : phases_of(angle, turns);
    };
    size_t next = 2;
    const Phases path = c.path ? phases(in[next++], at::kInt) : Phases{};
    const Phases initial = c.initial ? phases(in[next++], at::kLong) : Phases{};
    const SegmentedScanResult out =
        segmented_scan(in[0], in[1], group, c.groups, path, initial, scale, c.unconstrained);
    return std::vector{on_circle(out.path), on_circle(out.final_state)};
  };
  std::vector<Tensor> inputs{random.normal({c.batch, c.time, c.slots}), random.normal({c.batch, c.time, c.size})};
  if (c.path) inputs.push_back(random.normal({c.batch, c.time, c.slots, c.size}));
  if (c.initial) inputs.push_back(random.normal({c.batch, c.groups, c.slots, c.size}));
  derivative ? expect_op_is_right(function, inputs) : expect_op_agrees(function, inputs);
}

TEST(SegmentedScan, AgreesOnAwkwardShapes) {
  for (const int64_t size : {1, 2, 7, 8, 9, 63, 65, 130}) check_scan({.size = size});
  for (const int64_t slots : {1, 2, 3, 4, 5}) check_scan({.slots = slots});
  for (const int64_t time : {0, 1, 2, 200}) check_scan({.time = time});
  check_scan({.batch = 0});
  check_scan({.groups = 1});
  check_scan({.groups = 50});
  check_scan({.which = Groups::kAllInOne});
  check_scan({.which = Groups::kWithPadding});
  check_scan({.which = Groups::kAllPadding});
}

TEST(SegmentedScan, AgreesWithoutPathOrInitialState) {
  for (const int64_t time : {0, 1, 20}) {
    check_scan({.time = time, .path = false});
    check_scan({.time = time, .initial = false});
    check_scan({.time = time, .path = false, .initial = false});
  }
}

TEST(SegmentedScan, AgreesWithScaledGradients) {
  check_scan({.scaled = true});
  check_scan({.time = 60, .which = Groups::kWithPadding, .scaled = true});
}

TEST(SegmentedScan, AgreesUnconstrained) {
  check_scan({.unconstrained = true});
  check_scan({.which = Groups::kWithPadding, .scaled = true, .unconstrained = true});
}

TEST(SegmentedScan, GradientIsTheDerivative) {
  check_scan({.time = 5, .size = 2}, /*derivative=*/true);
  check_scan({.time = 5, .size = 2, .which = Groups::kAllInOne}, true);
  check_scan({.time = 5, .size = 2, .which = Groups::kWithPadding, .path = false}, true);
  check_scan({.time = 3, .groups = 7, .size = 2, .initial = false}, true);
  check_scan({.time = 1, .groups = 1, .slots = 1, .size = 3}, true);
  check_scan({.time = 4, .size = 2, .unconstrained = true}, true);
}

// Eq. 9: the gradient of what a token writes, and nothing else, is divided by sqrt(s).
TEST(SegmentedScan, NormalisedGradientIsPlainOverSqrtOfWrites) {
  Random random(31);
  constexpr int64_t B = 2, T = 40, G = 4, N = 3, M = 6;
  const Tensor group = random.integers(-1, G, {B, T});
  const Tensor counts = at::one_hot(group + 1, G + 1).narrow(2, 1, G).sum(1).to(at::kFloat);  // [B,G]
  const Tensor scale = counts.clamp_min(1).rsqrt();
  const Tensor per_token = scale.gather(1, group.clamp_min(0)).unsqueeze(-1);  // [B,T,1]
  const std::vector<Tensor> inputs{random.normal({B, T, N}), random.normal({B, T, M}), random.normal({B, T, N, M}),
                                   random.normal({B, G, N, M})};
  const auto gradients = [&](const OptTensor& grad_scale, Implementation implementation) {
    return values_and_gradients(
        [&](const std::vector<Tensor>& in) {
          const SegmentedScanResult out = segmented_scan(in[0], in[1], group, G, phases_of(in[2], at::kInt),
                                                         phases_of(in[3], at::kLong), grad_scale, false);
          return std::vector{on_circle(out.path), on_circle(out.final_state)};
        },
        inputs, at::kFloat, implementation, Layout::kContiguous);
  };
  for (const Implementation implementation : {Implementation::kFast, Implementation::kReference}) {
    const auto plain = gradients(std::nullopt, implementation), normalised = gradients(scale, implementation);
    EXPECT_TRUE(at::equal(plain[0], normalised[0]));  // values are untouched
    EXPECT_TRUE(at::equal(plain[1], normalised[1]));
    for (const int written : {2, 3}) {
      EXPECT_TRUE(at::allclose(normalised[written], plain[written] * per_token, 1e-5, 1e-6));
      EXPECT_FALSE(at::allclose(normalised[written], plain[written], 1e-2, 1e-2));
    }
    for (const int passed_on : {4, 5}) EXPECT_TRUE(at::allclose(normalised[passed_on], plain[passed_on], 1e-6, 1e-6));
  }
}

TEST(SegmentedScan, ByHand) {
  // Two slots, weights (1/4, 3/4), two writes of pi/2 and pi to one group: pi/8, 3pi/8 and then 3pi/8, 9pi/8 - 2pi.
  const Tensor weights = at::tensor({0.25f, 0.75f}).expand({1, 2, 2});
  const Tensor update = at::tensor({static_cast<float>(M_PI / 2), static_cast<float>(M_PI)}).view({1, 2, 1});
  const Tensor group = at::zeros({1, 2}, at::kLong);
  for (const Implementation implementation : {Implementation::kFast, Implementation::kReference}) {
    const ImplementationGuard guard(implementation);
    const SegmentedScanResult out = segmented_scan(weights, update, group, 1, {}, {}, std::nullopt, false);
    const Tensor want = at::tensor({1.0, 3.0, 3.0, -7.0}, at::kDouble).view({1, 2, 2, 1}) * (M_PI / 8);
    EXPECT_LE((to_angle(*out.path.turns, at::kDouble) - want).abs().max().item<double>(), 3e-7);
    EXPECT_LE((*out.path.angle - want).abs().max().item<double>(), 4e-7);
  }
}

TEST(SegmentedScan, PaddingWritesNothingAndReadsThePathAlone) {
  Random random(32);
  const Tensor weights = random.normal({1, 4, 2}).to(at::kFloat), update = random.normal({1, 4, 3}).to(at::kFloat);
  const Phases path = phases_of(random.normal({1, 4, 2, 3}).to(at::kFloat), at::kInt);
  const Phases initial = phases_of(random.normal({1, 2, 2, 3}).to(at::kFloat), at::kLong);
  for (const Implementation implementation : {Implementation::kFast, Implementation::kReference}) {
    const ImplementationGuard guard(implementation);
    const SegmentedScanResult out =
        segmented_scan(weights, update, at::full({1, 4}, -1, at::kLong), 2, path, initial, std::nullopt, false);
    EXPECT_TRUE(at::equal(*out.path.turns, *path.turns));
    EXPECT_TRUE(at::equal(*out.final_state.turns, *initial.turns));
  }
}

TEST(SegmentedScan, InferenceGivesTurnsAlone) {
  at::NoGradGuard no_grad;
  const SegmentedScanResult out =
      segmented_scan(at::ones({1, 2, 2}), at::ones({1, 2, 3}), at::zeros({1, 2}, at::kLong), 1, {}, {}, {}, false);
  EXPECT_TRUE(out.path.turns && out.final_state.turns);
  EXPECT_FALSE(out.path.angle || out.final_state.angle);
}

TEST(SegmentedScan, RefusesWhatDoesNotFit) {
  const Tensor weights = at::ones({1, 2, 2}), update = at::ones({1, 2, 3}), group = at::zeros({1, 2}, at::kLong);
  const auto write = [&](const Tensor& u, const Tensor& g, const Phases& path, const Phases& initial) {
    return segmented_scan(weights, u, g, 1, path, initial, std::nullopt, false);
  };
  EXPECT_NO_THROW(write(update, group, {}, {}));
  EXPECT_THROW(write(at::ones({1, 3, 3}), group, {}, {}), c10::Error);
  EXPECT_THROW(write(update, group + 1, {}, {}), c10::Error);
  EXPECT_THROW(write(update, group, {.turns = at::zeros({1, 2, 2, 4}, at::kInt), .angle = {}}, {}), c10::Error);
  EXPECT_THROW(write(update, group, {}, {.turns = at::zeros({1, 2, 2, 3}, at::kLong), .angle = {}}), c10::Error);
}

}  // namespace
}  // namespace pmnet::ops
