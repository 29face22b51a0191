#include "model/rope.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace pmnet {
namespace {

// The largest error of sin and cos against 80-bit arithmetic.
double error_at(int64_t position, double theta, at::ScalarType dtype) {
  constexpr int64_t kTokens = 300, kWidth = 64;
  const RotaryTable table = rotary_table(at::tensor({position}, at::kLong), kTokens, kWidth, theta, dtype);
  const at::Tensor cos = table.cos.to(at::kDouble), sin = table.sin.to(at::kDouble);
  const auto c = cos.accessor<double, 3>(), s = sin.accessor<double, 3>();
  double worst = 0;
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t i = 0; i < kWidth / 2; ++i) {
      const long double frequency = std::pow(static_cast<long double>(theta), -2.0L * i / kWidth);
      const long double angle = std::remainder((position + t) * frequency, 2 * std::numbers::pi_v<long double>);
      worst = std::max({worst, std::abs(c[0][t][i] - static_cast<double>(std::cos(angle))),
                        std::abs(s[0][t][i] - static_cast<double>(std::sin(angle)))});
    }
  }
  return worst;
}

TEST(RotaryTable, IsExactAtAnyPosition) {
  for (const double theta : {1e4, 1e6})
    for (const int64_t position : {int64_t{0}, int64_t{1} << 19, int64_t{10'000'000}, int64_t{1'000'000'000}})
      EXPECT_LE(error_at(position, theta, at::kFloat), 1e-6) << "position " << position << ", theta " << theta;
}

TEST(RotaryTable, HasOneRowForEqualPositionsAndOnePerStreamOtherwise) {
  EXPECT_EQ(rotary_table(at::tensor({5, 5}, at::kLong), 3, 8, 1e4, at::kFloat).cos.size(0), 1);
  const RotaryTable two = rotary_table(at::tensor({5, 900}, at::kLong), 3, 8, 1e4, at::kFloat);
  ASSERT_EQ(two.cos.size(0), 2);
  const RotaryTable second = rotary_table(at::tensor({900}, at::kLong), 3, 8, 1e4, at::kFloat);
  EXPECT_TRUE(at::equal(two.cos[1], second.cos[0]));
  EXPECT_TRUE(at::equal(two.sin[1], second.sin[0]));
}

TEST(RotaryTable, ConsecutiveChunksContinue) {
  const RotaryTable whole = rotary_table(at::tensor({0}, at::kLong), 10, 8, 1e6, at::kFloat);
  const RotaryTable rest = rotary_table(at::tensor({6}, at::kLong), 4, 8, 1e6, at::kFloat);
  EXPECT_TRUE(at::equal(whole.cos.narrow(1, 6, 4), rest.cos));
}

}  // namespace
}  // namespace pmnet
