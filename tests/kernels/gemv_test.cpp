// GEMV against sums in double, on every instruction set.
#include "kernels/gemv/gemv.h"

#include <cmath>
#include <limits>
#include <vector>

#include "every_target.h"
#include "kernels/gemv/pack.h"
#include "kernels/gemv/quantize.h"
#include "normal.h"

namespace pmnet::kernels {
namespace {

// Integer weights in the order that the current instruction set reads them in.
struct Packed {
  std::vector<int8_t> bytes;
  WeightMatrix matrix;
  Packed(WeightType type, int64_t rows, int64_t cols, const void* stored, const float* scales)
      : bytes(packed_bytes(type, rows, cols)), matrix{type, bytes.data(), 0, scales, cols} {
    pack_rows(type, rows, cols, stored, bytes.data());
  }
};

// Weights of some type, and what they stand for.
struct Weights {
  std::vector<int8_t> bytes;
  std::vector<int16_t> shorts;
  std::vector<float> scales, wide;

  Weights(int64_t rows, int64_t cols, uint64_t seed)
      : bytes(rows * cols), shorts(rows * cols), scales(normal(rows, seed + 1)), wide(normal(rows * cols, seed)) {
    for (int64_t i = 0; i < rows * cols; ++i) {
      bytes[i] = static_cast<int8_t>(i * i % 255 - 127);
      shorts[i] = static_cast<int16_t>(1000 * wide[i]);
    }
  }
  const void* stored(WeightType type) const {
    return type == WeightType::kInt8 ? static_cast<const void*>(bytes.data()) : shorts.data();
  }
  double value(WeightType type, int64_t row, int64_t place) const {
    if (type == WeightType::kF32) return wide[place];
    return double{scales[row]} * (type == WeightType::kInt8 ? bytes[place] : shorts[place]);
  }
};

Operands prepare(const WeightMatrix& w, int64_t count, const float* x, int64_t stride) {
  Operands operands;
  bind_operands(w, count, x, stride, operands);
  for (int64_t v = 0; v < count && w.type != WeightType::kF32; ++v) quantize_operand(w, v, operands);
  return operands;
}

// Operands that fill tiles and vectors left over, in shapes that no block, register or group of streams divides; all
// rows in pieces, and some from the middle of a panel.
TEST(Gemv, IsTheProduct) {
  const int64_t rows = 285, cols = 301, first = 3, threads = 2;
  const Weights weights(rows, cols, 4);
  const auto bias = normal(rows, 6);
  on_every_target([&] {
    for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kInt8}) {
      const Packed packed(type, rows, cols, weights.stored(type), weights.scales.data());
      const WeightMatrix w =
          type == WeightType::kF32 ? WeightMatrix{type, weights.wide.data(), 0, nullptr, cols} : packed.matrix;
      for (const int64_t vectors : {1, 2, 3, 4, 5, 6, 7, 16, 32}) {
        const int64_t stride = cols + 3;
        const auto x = normal(vectors * stride, 7);
        const Operands operands = prepare(w, vectors, x.data(), stride);
        std::vector<float> y(vectors * rows), some(vectors * rows, -1.0f);
        const RowPartition partition = partition_rows(w, rows, vectors, threads);
        ASSERT_TRUE(partition.groups > 0 || vectors > 1);
        for (int64_t i = 0; i < partition.size(); ++i)
          gemv(w, partition.range(i), bias.data(), operands, y.data(), rows);
        gemv(w, {first, rows - first, 0}, bias.data(), operands, some.data(), rows);
        for (int64_t i = 0; i < vectors * rows; ++i) {
          const int64_t v = i / rows, row = i % rows;
          const double half_step = type == WeightType::kF32 ? 0 : operands.scales[v] / 2;
          double want = bias[row], limit = 1e-6;
          for (int64_t c = 0; c < cols; ++c) {
            const double weight = weights.value(type, row, row * cols + c);
            want += weight * x[v * stride + c];
            limit += std::abs(weight) * (1e-6 * std::abs(x[v * stride + c]) + half_step);
          }
          ASSERT_NEAR(y[i], want, limit) << vectors << " vectors, row " << row;
          ASSERT_NEAR(some[i], row < first ? -1.0 : want, limit) << vectors << " vectors, row " << row;
        }
      }
    }
  });
}

TEST(RowPartition, HaveEveryRowOnce) {
  on_every_target([] {
    for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kInt8})
      for (const int64_t first_row : {0, 7})
        for (const int64_t cols : {3, 200, 3000})
          for (const int64_t rows : {1, 15, 64, 1000})
            for (const int64_t vectors : {1, 4, 8})
              for (const int64_t threads : {1, 2, 7}) {
                const RowPartition partition =
                    partition_rows({type, nullptr, first_row, nullptr, cols}, rows, vectors, threads);
                std::vector<int> times(rows);
                for (int64_t i = 0; i < partition.size(); ++i) {
                  const RowRange range = partition.range(i);
                  for (int64_t stream = 0; stream < (range.stream_stride > 0 ? kStreams : 1); ++stream)
                    for (int64_t row = 0; row < range.count; ++row)
                      ++times.at(range.begin + stream * range.stream_stride + row);
                }
                ASSERT_EQ(times, std::vector<int>(rows, 1)) << rows << " rows, " << cols << " columns";
              }
  });
}

TEST(PackRows, WeightsComeBackScaled) {
  const int64_t rows = 37, cols = 51, first = 5;  // neither fills panels or pairs
  const Weights weights(rows, cols, 8);
  on_every_target([&] {
    for (const WeightType type : {WeightType::kBF16, WeightType::kInt8}) {
      const Packed packed(type, rows, cols, weights.stored(type), weights.scales.data());
      std::vector<float> unpacked((rows - first) * cols);
      unpack_rows(packed.matrix, first, rows, unpacked.data());
      for (int64_t i = 0; i < static_cast<int64_t>(unpacked.size()); ++i)
        ASSERT_FLOAT_EQ(unpacked[i], weights.value(type, first + i / cols, first * cols + i)) << "column " << i % cols;
    }
  });
}

// y [vectors, rows] = x [vectors, cols] W^T.
void multiply(const WeightMatrix& w, int64_t rows, int64_t vectors, const float* x, float* y) {
  gemv(w, {0, rows, 0}, nullptr, prepare(w, vectors, x, w.cols), y, rows);
}

// The largest sums of all: long rows of the largest weights by vectors that point where they do.
TEST(Gemv, SumsOfIntegersDoNotOverflow) {
  on_every_target([] {
    for (const int64_t cols : {500, 4096, 20'001}) {
      const float largest = 2047;  // as many steps: with one more, a block would be too long for them
      const std::vector<float> same(3 * cols, largest), x(5 * cols, -3.0f);
      std::vector<int16_t> shorts(3 * cols);
      const float step =
          quantize_int16(3 * cols, same.data(), kMaxWeightNormInt16, ScaleKind::kPowerOfTwo, shorts.data());
      ASSERT_EQ(step, 1);
      const std::vector<int8_t> bytes(3 * cols, 127);
      for (const WeightType type : {WeightType::kBF16, WeightType::kInt8}) {
        const bool half = type == WeightType::kBF16;
        const float unit = half ? 1 / largest : 1 / 127.0f;
        const std::vector<float> scales{unit, 0.5f * unit, 2 * unit};
        const void* stored = half ? static_cast<const void*>(shorts.data()) : bytes.data();
        const Packed w(type, 3, cols, stored, scales.data());
        std::vector<float> y(5 * 3);
        multiply(w.matrix, 3, 5, x.data(), y.data());
        for (int64_t i = 0; i < 15; ++i) {
          const double want = -3.0 * static_cast<double>(cols) * scales[i % 3] / unit;
          ASSERT_NEAR(y[i] / want, 1.0, half ? 2e-4 : 1e-5) << cols << " columns";
        }
      }
    }
  });
}

TEST(Gemv, IntegersKeepZerosAndWhatIsNoNumber) {
  on_every_target([] {
    const int64_t cols = 37;
    const Weights weights(1, cols, 9);
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (const WeightType type : {WeightType::kBF16, WeightType::kInt8}) {
      const Packed w(type, 1, cols, weights.stored(type), weights.scales.data());
      for (const float odd : {0.0f, inf, -inf, nan}) {
        std::vector<float> x(cols, odd == 0 ? 0.0f : 1.0f), y(1, 9.0f);
        x[8] = odd;
        multiply(w.matrix, 1, 1, x.data(), y.data());
        if (odd == 0)
          EXPECT_EQ(y[0], 0);
        else
          EXPECT_FALSE(std::isfinite(y[0])) << odd;
      }
    }
  });
}

}  // namespace
}  // namespace pmnet::kernels
