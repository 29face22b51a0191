// How exact the vector functions are, measured through the kernels that use them, on every instruction set.
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "every_target.h"
#include "kernels/circle_features.h"
#include "kernels/cross_entropy.h"
#include "kernels/phase_attention.h"
#include "kernels/segmented_scan.h"
#include "kernels/selective_scan.h"
#include "kernels/swiglu.h"
#include "kernels/turns.h"

namespace pmnet::kernels {
namespace {

// A fine grid with a length that no vector width divides.
std::vector<float> grid(double low, double high, int64_t count = 200'003) {
  std::vector<float> x(count);
  for (int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(low + (high - low) * i / (count - 1));
  return x;
}

TEST(Tanh, IsWithin4em7Everywhere) {
  on_every_target([] {
    for (const double range : {0.01, 1.0, 12.0, 1e30}) {
      const auto x = grid(-range, range);
      auto y = x;
      const std::vector<float> no_bias(x.size(), 0.0f);
      tanh_rows(1, static_cast<int64_t>(x.size()), y.data(), no_bias.data());
      double worst = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        worst = std::max(worst, std::abs(y[i] - std::tanh(static_cast<double>(x[i]))));
        ASSERT_LE(std::abs(y[i]), 1.0f);
      }
      EXPECT_LE(worst, 4e-7) << "up to " << range;
    }
  });
}

TEST(Tanh, IsRelativelyExactNearZeroAndOdd) {
  on_every_target([] {
    const auto x = grid(1e-6, 0.5);
    auto plus = x, minus = x;
    for (float& v : minus) v = -v;
    const std::vector<float> no_bias(x.size(), 0.0f);
    tanh_rows(1, static_cast<int64_t>(x.size()), plus.data(), no_bias.data());
    tanh_rows(1, static_cast<int64_t>(x.size()), minus.data(), no_bias.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(plus[i] / std::tanh(static_cast<double>(x[i])), 1.0, 5e-7);
      ASSERT_EQ(plus[i], -minus[i]);
    }
  });
}

TEST(SinCos, AreWithin3em7OnTheWholeCircle) {
  constexpr int64_t kCount = 200'003;
  std::vector<int32_t> turns(kCount), zero(kCount, 0);
  for (int64_t i = 0; i < kCount; ++i) turns[i] = static_cast<int32_t>(INT32_MIN + i * ((int64_t{1} << 32) / kCount));
  turns[1] = 0, turns[2] = 1 << 30, turns[3] = -(1 << 30), turns[4] = INT32_MAX;
  on_every_target([&] {
    std::vector<float> features(2 * kCount);
    const int64_t group = 0;
    circle_features(1, 1, kCount, turns.data(), zero.data(), &group, features.data());
    double worst = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      const double angle = turns[i] * (std::numbers::pi * 0x1p-31);
      worst =
          std::max({worst, std::abs(features[i] - std::sin(angle)), std::abs(features[kCount + i] - std::cos(angle))});
    }
    EXPECT_LE(worst, 3e-7);
  });
}

// Integers, so exact whatever the instruction set: the double product of spec, rounded to nearest even, modulo 2^64.
int64_t turns_of(float radians) {
  const double product = static_cast<double>(radians) * (0x1p64 / (2 * std::numbers::pi));
  return static_cast<int64_t>(static_cast<uint64_t>(static_cast<__int128>(std::nearbyint(product))));
}

std::vector<float> awkward_angles() {
  std::vector<float> x = grid(-std::numbers::pi, std::numbers::pi, 50'001);
  for (const float edge : {0.0f, -0.0f, 1e-45f, -1e-45f, 1e-30f, 1e-19f, 1.7e-19f, -1.7e-19f, 3.4e-19f, 1e-10f, 1e6f,
                           -1e6f, static_cast<float>(std::numbers::pi), -static_cast<float>(std::numbers::pi)})
    x.push_back(edge);
  std::mt19937 engine(60);
  std::uniform_real_distribution<float> exponent(-70, 5), sign(-1, 1);
  for (int i = 0; i < 50'000; ++i) x.push_back(std::copysign(std::exp2(exponent(engine)), sign(engine)));
  return x;
}

TEST(Turns, AreExact) {
  const auto x = awkward_angles();
  on_every_target([&] {
    std::vector<int64_t> turns(x.size());
    radians_to_turns(static_cast<int64_t>(x.size()), x.data(), turns.data());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(turns[i], turns_of(x[i])) << x[i];
  });
}

TEST(Turns, OfTheScanAreExactWithTails) {
  const auto x = awkward_angles();
  constexpr int64_t kSize = 13, kSlots = 2;  // no vector width divides 13
  const int64_t tokens = static_cast<int64_t>(x.size()) / kSize;
  const std::vector<float> weights(tokens * kSlots, 0.37f);
  const std::vector<int64_t> group(tokens, 0);
  std::vector<uint64_t> want(kSlots * kSize, 0);
  std::vector<int32_t> want_path(tokens * kSlots * kSize);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t c = 0; c < kSlots * kSize; ++c) {
      const float delta = 0.37f * x[t * kSize + c % kSize];
      want[c] += static_cast<uint64_t>(turns_of(delta));
      want_path[t * kSlots * kSize + c] = static_cast<int32_t>(want[c] >> 32);
    }
  }
  on_every_target([&] {
    std::vector<int64_t> state(kSlots * kSize, 0);
    std::vector<int32_t> path(want_path.size());
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 5}, {5, 13}})
      segmented_scan({tokens, kSlots, kSize, begin, end}, weights.data(), x.data(), group.data(), nullptr, state.data(),
                     path.data());
    EXPECT_EQ(path, want_path);
    for (int64_t c = 0; c < kSlots * kSize; ++c) EXPECT_EQ(static_cast<uint64_t>(state[c]), want[c]);
  });
}

TEST(Exp, InSiluIsWithin4em7) {
  const auto x = grid(-30, 30);
  const std::vector<float> one(x.size(), 1.0f);
  on_every_target([&] {
    std::vector<float> y(x.size());
    swiglu(static_cast<int64_t>(x.size()), x.data(), one.data(), y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double silu = x[i] / (1 + std::exp(-static_cast<double>(x[i])));
      ASSERT_LE(std::abs(y[i] - silu), 4e-7 * std::max(std::abs(silu), 0.1)) << x[i];
    }
  });
}

TEST(Exp, InSoftmaxIsWithin4em7) {
  on_every_target([] {
    for (const double gap : {0.0, 1e-3, 0.5, 3.0, 20.0, 87.0, 100.0, 1e4}) {
      std::vector<float> logits{0.0f, static_cast<float>(-gap), static_cast<float>(-gap)};
      const int64_t target = 1;
      float loss = 0;
      cross_entropy(1, 3, logits.data(), &target, &loss);
      const double e = std::exp(-static_cast<double>(static_cast<float>(gap))), total = 1 + 2 * e;
      EXPECT_NEAR(logits[0], 1 / total, 4e-7);
      EXPECT_NEAR(logits[1], e / total - 1, 4e-7);
      EXPECT_NEAR(logits[2], e / total, 4e-7);
      EXPECT_NEAR(loss, gap + std::log(total), 4e-7 * std::max(gap, 1.0));
    }
  });
}

// A state of one that nothing is added to becomes its decay, exp(delta A).
TEST(Exp, InTheSelectiveScanIsWithin3em7) {
  const auto a = grid(-60, 0);
  const int64_t channels = static_cast<int64_t>(a.size());
  const std::vector<float> zero(a.size(), 0.0f), delta(a.size(), 1.0f);
  const float none = 0;
  on_every_target([&] {
    const auto decays = [&](const std::vector<float>& exponents) {
      std::vector<float> state(exponents.size(), 1.0f), y(exponents.size());
      selective_scan({1, channels, 1, channels, 0, channels},
                     {zero.data(), delta.data(), exponents.data(), &none, &none, zero.data(), zero.data()},
                     state.data(), nullptr, y.data());
      return state;
    };
    const auto found = decays(a);
    for (int64_t i = 0; i < channels; ++i)  // float32 rounds the exponent too
      ASSERT_NEAR(found[i] / std::exp(static_cast<double>(a[i])), 1.0, 3e-7 * std::max(-a[i], 1.0f)) << a[i];
    for (const float gone : decays(grid(-1e4, -70))) ASSERT_TRUE(gone >= 0 && gone <= 1e-30f) << gone;
  });
}

}  // namespace
}  // namespace pmnet::kernels
