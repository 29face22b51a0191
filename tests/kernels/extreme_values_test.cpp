// NaN, infinity and magnitudes at the ends of float32, on every instruction set.
#include <cmath>
#include <limits>
#include <vector>

#include "every_target.h"
#include "kernels/causal_conv.h"
#include "kernels/cross_entropy.h"
#include "kernels/phase_attention.h"
#include "kernels/selective_scan.h"
#include "kernels/swiglu.h"
#include "kernels/token_attention.h"
#include "kernels/turns.h"

namespace pmnet::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// Below -177.8 the exponential of an earlier sigmoid wrapped around, and silu became linear.
TEST(Silu, SaturatesForEveryNegativeGate) {
  std::vector<float> gates{-80,  -100, -104,  -150,  -177.5f, -177.793f, -178,
                           -200, -300, -1000, -1e6f, -1e30f,  -kLargest};
  const int64_t count = static_cast<int64_t>(gates.size());
  const std::vector<float> one(count, 1.0f);
  on_every_target([&] {
    std::vector<float> y(count), grad_gate(count), grad_up(count);
    swiglu(count, gates.data(), one.data(), y.data());
    swiglu_backward(count, gates.data(), one.data(), one.data(), grad_gate.data(), grad_up.data());
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_NEAR(y[i], 0, 1e-30) << gates[i];
      EXPECT_NEAR(grad_gate[i], 0, 1e-30) << gates[i];
      EXPECT_EQ(grad_up[i], y[i]) << gates[i];
    }
  });
}

TEST(Silu, IsTheIdentityForLargeGates) {
  const std::vector<float> gates{20, 100, 1e10f, kLargest}, one(4, 1.0f);
  on_every_target([&] {
    std::vector<float> y(4), slope(4), unused(4);
    swiglu(4, gates.data(), one.data(), y.data());
    swiglu_backward(4, gates.data(), one.data(), one.data(), slope.data(), unused.data());
    EXPECT_EQ(y, gates);
    for (const float s : slope) EXPECT_NEAR(s, 1, 1e-6);
  });
}

TEST(Silu, SaturatesInTheConvolutionAndTheGateOfTheScan) {
  on_every_target([] {
    const float x = -200, weight = 1, zero = 0, one = 1;
    float y = 9, state = 0;
    causal_conv({1, 1, 1, 1, 0, 1}, {&x, nullptr, &weight, nullptr}, &y);
    EXPECT_EQ(y, 0);
    selective_scan({1, 1, 1, 1, 0, 1}, {&one, &one, &zero, &one, &one, &one, &x}, &state, nullptr, &y);
    EXPECT_EQ(y, 0);
  });
}

// One NaN in the middle of a row whose length fills neither whole vectors nor a single one.
TEST(NaN, PassesThroughTanhAndSilu) {
  on_every_target([] {
    std::vector<float> x(37, 0.5f), y(37), zero(37, 0.0f), one(37, 1.0f);
    x[3] = x[36] = kNaN;
    swiglu(37, x.data(), one.data(), y.data());
    tanh_rows(1, 37, x.data(), zero.data());
    for (const auto& row : {x, y})
      for (size_t i = 0; i < row.size(); ++i) EXPECT_EQ(std::isnan(row[i]), i == 3 || i == 36) << i;
  });
}

TEST(NaN, AndInfinityInLogitsMakeTheLossNaN) {
  on_every_target([] {
    for (const float bad : {kNaN, kInfinity})
      for (const size_t place : {0, 5, 30, 36}) {
        std::vector<float> logits(37, 0.25f);
        logits[place] = bad;
        const int64_t target = 11;
        float loss = 0;
        cross_entropy(1, 37, logits.data(), &target, &loss);
        EXPECT_TRUE(std::isnan(loss)) << bad << " at " << place;
        for (const float gradient : logits) EXPECT_TRUE(std::isnan(gradient));
      }
  });
}

TEST(CrossEntropy, TakesLogitsOfMinusInfinityAndAnyMagnitude) {
  on_every_target([] {
    for (const float low : {-kInfinity, -kLargest, -1e30f}) {
      std::vector<float> logits{low, 3.0f, low, 3.0f, 3.0f};
      const int64_t target = 1;
      float loss = 0;
      cross_entropy(1, 5, logits.data(), &target, &loss);
      EXPECT_NEAR(loss, std::log(3.0), 1e-6) << low;
      EXPECT_NEAR(logits[1], 1 / 3.0 - 1, 1e-6);
      EXPECT_EQ(logits[0], 0);
    }
  });
}

TEST(NaN, InAKeyReachesTheOutputOfTokenAttention) {
  on_every_target([] {
    std::vector<float> q(8, 1.0f), k(9 * 8, 0.5f), v(9 * 8, 2.0f), out(8);
    k[4 * 8 + 2] = kNaN;
    float log_sum = 0;
    attend_token({1, 1, 8, 0, 9, 8, 1.0f}, q.data(), k.data(), v.data(), out.data(), &log_sum);
    for (const float x : out) EXPECT_TRUE(std::isnan(x));
  });
}

TEST(NaN, InADecayReachesTheStateOfTheScan) {
  on_every_target([] {
    const float one = 1, bad = kNaN;
    float state = 1, y = 0;
    selective_scan({1, 1, 1, 1, 0, 1}, {&one, &one, &bad, &one, &one, &one, &one}, &state, nullptr, &y);
    EXPECT_TRUE(std::isnan(state) && std::isnan(y));
  });
}

TEST(AllWithin, SeesOneValueThatIsNot) {
  on_every_target([] {
    EXPECT_TRUE(all_within(0, nullptr, 1));
    for (const float bad : {kNaN, -kNaN, kInfinity, -kInfinity, 1.5f, -1.5f})
      for (const size_t place : {0, 17, 36}) {
        std::vector<float> x(37, -1.0f);
        EXPECT_TRUE(all_within(37, x.data(), 1));
        x[place] = bad;
        EXPECT_FALSE(all_within(37, x.data(), 1)) << bad << " at " << place;
      }
  });
}

}  // namespace
}  // namespace pmnet::kernels
