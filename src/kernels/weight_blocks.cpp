#include "kernels/weight_blocks.h"

#include <algorithm>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/weight_blocks.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"
#include "kernels/small_gemm-inl.h"
#include "kernels/weight_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// out[c - begin] = scale * row[c] for the columns [begin, end).
template <class Row>
HWY_INLINE void WidenColumns(const Row& row, int64_t begin, int64_t end, float scale, float* out) {
  const Floats d;
  const int64_t lanes = hn::Lanes(d);
  int64_t c = begin;
  for (; c + lanes <= end; c += lanes, out += lanes) hn::StoreU(hn::Mul(row.Widen(c), hn::Set(d, scale)), d, out);
  for (; c < end; ++c) *out++ = row.At(c) * scale;
}

void UnpackRows(const WeightMatrix& w, int64_t begin, int64_t end, float* out) {
  WithType(w, [&](const auto& row_at) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r, out += w.cols)
      WidenColumns(row_at(r), 0, w.cols, w.scales ? w.scales[r] : 1.0f, out);
  });
}

void MultiplyColumns(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, int64_t num_vectors,
                     const float* columns, float* y, int64_t y_stride) {
  constexpr int64_t kBlockCols = 256;  // with 32 vectors these columns fill half of the first cache
  HWY_ALIGN float block[kBlockRows * kBlockCols];
  std::vector<float> sums(kBlockRows * num_vectors);
  WithType(w, [&](const auto& row_at) HWY_ATTR {
    for (int64_t first = begin; first < end; first += kBlockRows) {
      const int64_t rows = std::min(kBlockRows, end - first);
      for (int64_t c = 0; c < w.cols; c += kBlockCols) {
        const int64_t last = std::min(c + kBlockCols, w.cols);
        for (int64_t i = 0; i < rows; ++i) {
          WidenColumns(row_at(first + i), c, last, w.scales ? w.scales[first + i] : 1.0f, block + i * kBlockCols);
          PrefetchColumns(row_at(first + i + kBlockRows), c, last);
        }
        small_gemm(rows, num_vectors, last - c, block, kBlockCols, 1, columns + c * num_vectors, num_vectors,
                   sums.data(), num_vectors, /*accumulate=*/c > 0);
      }
      for (int64_t v = 0; v < num_vectors; ++v)
        for (int64_t i = 0; i < rows; ++i)
          y[v * y_stride + first + i] = sums[i * num_vectors + v] + (bias ? bias[first + i] : 0.0f);
    }
  });
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(UnpackRows);
HWY_EXPORT(MultiplyColumns);

void unpack_rows(const WeightMatrix& w, int64_t begin, int64_t end, float* out) {
  HWY_DYNAMIC_DISPATCH(UnpackRows)(w, begin, end, out);
}

void multiply_columns(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, int64_t num_vectors,
                      const float* columns, float* y, int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(MultiplyColumns)(w, begin, end, bias, num_vectors, columns, y, y_stride);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
