// The kernels of decoding against sums in double, on every instruction set.
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "every_target.h"
#include "kernels/matvec.h"
#include "kernels/token_attention.h"
#include "kernels/weight_packing.h"
#include "normal.h"

namespace pmnet::kernels {
namespace {

// Attention written down as its formula says.
std::vector<double> attention(const TokenHeads& h, const float* q, const float* k, const float* v) {
  std::vector<double> out(h.num_heads * h.width, 0);
  for (int64_t head = 0; head < h.num_heads; ++head) {
    const int64_t at = head / h.heads_per_key * h.width;
    double total = 0;
    for (int64_t key = h.first_key; key < h.num_keys; ++key) {
      double dot = 0;
      for (int64_t d = 0; d < h.width; ++d) dot += double{q[head * h.width + d]} * k[key * h.key_stride + at + d];
      const double weight = std::exp(dot * h.scale);
      total += weight;
      for (int64_t d = 0; d < h.width; ++d) out[head * h.width + d] += weight * v[key * h.key_stride + at + d];
    }
    for (int64_t d = 0; d < h.width; ++d) out[head * h.width + d] /= total;
  }
  return out;
}

TEST(TokenAttention, IsTheFormula) {
  on_every_target([] {
    for (const auto& [heads, per_key, width, first, keys] :
         {std::tuple{1, 1, 8, 0, 1}, {2, 1, 64, 0, 128}, {6, 3, 20, 5, 37}, {4, 4, 3, 2, 9}}) {
      const int64_t stride = heads / per_key * width + 24;
      const auto q = normal(heads * width, 1), k = normal(keys * stride, 2), v = normal(keys * stride, 3);
      const TokenHeads shape{heads, per_key, width, first, keys, stride, 0.3f};
      std::vector<float> out(q.size(), std::numeric_limits<float>::quiet_NaN());
      attend_token(shape, q.data(), k.data(), v.data(), out.data());
      const auto want = attention(shape, q.data(), k.data(), v.data());
      for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], want[i], 2e-6) << heads << " heads, number " << i;
    }
  });
}

// y [vectors, rows] = x [vectors, cols] W^T.
void multiply(const WeightMatrix& w, int64_t rows, int64_t vectors, const float* x, float* y) {
  Vectors ready;
  prepare_vectors(w, vectors, x, w.cols, ready);
  matvec(w, 0, rows, nullptr, ready, y, rows);
}

// Weights in the order that the current instruction set reads them in.
struct Packed {
  std::vector<int8_t> bytes;
  WeightMatrix matrix;
  Packed(WeightType type, int64_t rows, int64_t cols, const void* stored, const float* scales = nullptr)
      : bytes(packed_bytes(type, rows, cols)), matrix{type, bytes.data(), 0, scales, cols} {
    pack_rows(type, rows, cols, stored, bytes.data());
  }
};

// Vectors that fill tiles and vectors left over, in shapes that no block or register divides.
TEST(MatVec, IsTheProduct) {
  const int64_t rows = 29, cols = 301;
  const auto weights = normal(rows * cols, 4), bias = normal(rows, 5);
  std::vector<uint16_t> halves(weights.size());
  for (size_t i = 0; i < weights.size(); ++i)
    halves[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(weights[i]) >> 16);
  const auto widened = [&](int64_t i) { return std::bit_cast<float>(uint32_t{halves[i]} << 16); };
  on_every_target([&] {
    const Packed panels(WeightType::kBF16, rows, cols, halves.data());
    std::vector<float> unpacked(halves.size());
    unpack_rows(panels.matrix, 0, rows, unpacked.data());
    for (int64_t i = 0; i < rows * cols; ++i) ASSERT_EQ(unpacked[i], widened(i)) << "column " << i % cols;
    for (const int64_t vectors : {1, 2, 3, 4, 5, 6, 7, 16, 32})
      for (const WeightType type : {WeightType::kF32, WeightType::kBF16}) {
        const bool half = type == WeightType::kBF16;
        const int64_t stride = cols + 3, first = 3;  // part of the rows, from the middle of a panel
        const auto x = normal(vectors * stride, 6);
        const WeightMatrix w = half ? panels.matrix : WeightMatrix{type, weights.data(), 0, nullptr, cols};
        Vectors ready;
        prepare_vectors(w, vectors, x.data(), stride, ready);
        std::vector<float> y(vectors * rows, -1.0f);
        matvec(w, first, rows, bias.data(), ready, y.data(), rows);
        for (int64_t i = 0; i < vectors * rows; ++i) {
          const int64_t v = i / rows, row = i % rows;
          double want = bias[row];
          for (int64_t c = 0; c < cols; ++c)
            want += double{half ? widened(row * cols + c) : weights[row * cols + c]} * x[v * stride + c];
          ASSERT_NEAR(y[i], row < first ? -1.0 : want, 2e-4) << vectors << " vectors, row " << row;
        }
      }
  });
}

TEST(PackRows, Int8WeightsComeBackScaled) {
  const int64_t rows = 37, cols = 51;  // neither fills panels or pairs
  std::vector<int8_t> weights(rows * cols);
  for (int64_t i = 0; i < rows * cols; ++i) weights[i] = static_cast<int8_t>(i % 255 - 127);
  const auto scales = normal(rows, 7);
  on_every_target([&] {
    const Packed packed(WeightType::kInt8, rows, cols, weights.data(), scales.data());
    const int64_t first = 5;
    std::vector<float> unpacked((rows - first) * cols);
    unpack_rows(packed.matrix, first, rows, unpacked.data());
    for (int64_t i = 0; i < static_cast<int64_t>(unpacked.size()); ++i)
      ASSERT_EQ(unpacked[i], weights[first * cols + i] * scales[first + i / cols]) << "column " << i % cols;
  });
}

// The 32-bit sums of a long row must be emptied before they overflow: the largest weights and numbers, all of one sign.
TEST(MatVec, Int8SumsDoNotOverflow) {
  on_every_target([] {
    for (const int64_t cols : {500, 4096, 20'001}) {
      const std::vector<int8_t> weights(3 * cols, 127);
      const std::vector<float> scales{1.0f, 0.5f, 2.0f};
      const Packed w(WeightType::kInt8, 3, cols, weights.data(), scales.data());
      const std::vector<float> x(5 * cols, -3.0f);
      std::vector<float> y(5 * 3);
      multiply(w.matrix, 3, 5, x.data(), y.data());
      for (int64_t i = 0; i < 15; ++i) {
        const double want = -3.0 * 127 * static_cast<double>(cols) * scales[i % 3];
        ASSERT_NEAR(y[i] / want, 1.0, 1e-5) << cols << " columns";
      }
    }
  });
}

TEST(MatVec, Int8KeepsZerosAndWhatIsNoNumber) {
  on_every_target([] {
    const int64_t cols = 37;
    const std::vector<int8_t> weights(cols, 5);
    const float scale = 1;
    const Packed w(WeightType::kInt8, 1, cols, weights.data(), &scale);
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (const float odd : {0.0f, inf, -inf, nan})
      for (const int64_t place : {int64_t{0}, int64_t{8}, cols - 1}) {
        std::vector<float> x(cols, odd == 0 ? 0.0f : 1.0f), y(1, 9.0f);
        x[place] = odd;
        multiply(w.matrix, 1, 1, x.data(), y.data());
        if (odd == 0)
          EXPECT_EQ(y[0], 0);
        else
          EXPECT_FALSE(std::isfinite(y[0])) << odd << " at " << place;
      }
  });
}

}  // namespace
}  // namespace pmnet::kernels
