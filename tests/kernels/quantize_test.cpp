#include "kernels/gemv/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "every_target.h"
#include "normal.h"

namespace pmnet::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

double largest_norm(const std::vector<int16_t>& numbers) {
  double largest = 0;
  for (size_t begin = 0; begin < numbers.size(); begin += kNormBlock) {
    double squares = 0;
    for (size_t i = begin; i < std::min<size_t>(begin + kNormBlock, numbers.size()); ++i)
      squares += static_cast<double>(numbers[i]) * numbers[i];
    largest = std::max(largest, std::sqrt(squares));
  }
  return largest;
}

// Numbers of one kind, with one that sticks out, and all the same, whose blocks are as long as they can be.
std::vector<std::vector<float>> rows_of_numbers() {
  std::vector<std::vector<float>> rows;
  for (const int64_t count : {1, 5, 128, 129, 301, 1024}) {
    rows.push_back(normal(count, 1));
    rows.push_back(rows.back());
    rows.back()[count / 2] = 100;
    rows.push_back(std::vector<float>(count, -3.0f));
    rows.push_back(std::vector<float>(count, 1e30f));
    rows.push_back(std::vector<float>(count, 1e-25f));
  }
  return rows;
}

TEST(QuantizeInt16, IsTheFinestStepThatFits) {
  const auto rows = rows_of_numbers();
  on_every_target([&] {
    for (const auto& row : rows)
      for (const float limit : {kMaxWeightNormInt16, kMaxOperandNormInt16, kMaxOperandNormInt8})
        for (const ScaleKind kind : {ScaleKind::kAny, ScaleKind::kPowerOfTwo}) {
          std::vector<int16_t> out(row.size());
          const float factor = quantize_int16(row.size(), row.data(), limit, kind, out.data());
          for (size_t i = 0; i < row.size(); ++i)
            ASSERT_LE(std::abs(double{factor} * out[i] - row[i]), factor * 0.51) << "number " << i;
          const int16_t largest = std::abs(*std::max_element(
              out.begin(), out.end(), [](int16_t a, int16_t b) { return std::abs(a) < std::abs(b); }));
          ASSERT_LT(largest_norm(out), limit);
          const double used = std::max(largest_norm(out) / limit, largest / 32767.0);
          ASSERT_GE(used, kind == ScaleKind::kAny ? 0.999 : 0.499) << row.size() << " numbers";
        }
  });
}

TEST(QuantizeInt16, KeepsBf16NumbersThatAreNotSmall) {
  auto row = normal(1024, 2);
  for (float& x : row) x = std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xFFFF0000u);
  on_every_target([&] {
    std::vector<int16_t> out(row.size());
    const float factor =
        quantize_int16(row.size(), row.data(), kMaxWeightNormInt16, ScaleKind::kPowerOfTwo, out.data());
    EXPECT_EQ(std::bit_cast<uint32_t>(factor) & 0x007FFFFFu, 0u) << factor << " is no power of two";
    int64_t exact = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      exact += factor * out[i] == row[i];
      if (std::abs(row[i]) >= 128 * factor) {
        ASSERT_EQ(factor * out[i], row[i]);
      }
    }
    EXPECT_GE(exact, 900);
  });
}

TEST(QuantizeInt16, KeepsZerosAndWhatIsNoNumber) {
  on_every_target([] {
    for (const float odd : {0.0f, 1e-35f, kInfinity, -kInfinity, kNaN})
      for (const size_t place : {0, 8, 36}) {
        std::vector<float> row(37, std::isfinite(odd) ? 0.0f : 1.0f);
        row[place] = odd;
        std::vector<int16_t> out(row.size(), 9);
        const float factor = quantize_int16(row.size(), row.data(), kMaxWeightNormInt16, ScaleKind::kAny, out.data());
        EXPECT_EQ(std::isnan(factor), !std::isfinite(odd)) << odd << " at " << place;
        for (const int16_t number : out) EXPECT_EQ(number, 0);
      }
  });
}

}  // namespace
}  // namespace pmnet::kernels
