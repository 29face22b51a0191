// Rows of float32 weights by vectors, compiled once per instruction set (Highway's per-target include).
#if defined(PMNET_KERNELS_ROW_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_ROW_PRODUCTS_INL_H_
#undef PMNET_KERNELS_ROW_PRODUCTS_INL_H_
#else
#define PMNET_KERNELS_ROW_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "kernels/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

constexpr int64_t kTurnVectors = 4;             // of a row between two requests to memory
constexpr int64_t kBytesAheadOfStreams = 1024;  // of each of two streams: asking for more is no faster

HWY_INLINE int64_t TurnColumns() { return kTurnVectors * static_cast<int64_t>(hn::Lanes(Floats())); }

// The columns that fill no vector. Apart from the tiles, whose sums would else not stay in registers.
inline HWY_NOINLINE float LastColumns(const float* row, int64_t begin, int64_t end, const float* x) {
  float sum = 0;
  for (int64_t c = begin; c < end; ++c) sum += row[c] * x[c];
  return sum;
}

// sums [kRows, kVectors] = kRows rows by kVectors vectors. With one vector, four totals of each row hide the latency of
// the additions.
template <int kRows, int kVectors>
HWY_INLINE void MultiplyRows(const float* rows, int64_t row_stride, int64_t cols, const Ahead& ahead, const float* x,
                             int64_t x_stride, float* sums) {
  constexpr int kChains = kVectors == 1 ? 4 : 1;
  const Floats d;
  const int64_t lanes = hn::Lanes(d), turn = TurnColumns();
  FloatVec total[kRows * kVectors * kChains];
  HWY_UNROLL(16)
  for (auto& t : total) t = hn::Zero(d);
  const auto add = [&](int64_t column, int chain) HWY_ATTR {
    FloatVec w[kRows];
    for (int i = 0; i < kRows; ++i) w[i] = hn::LoadU(d, rows + i * row_stride + column);
    for (int v = 0; v < kVectors; ++v) {
      const auto xv = keep_in_register(hn::LoadU(d, x + v * x_stride + column));
      for (int i = 0; i < kRows; ++i) {
        auto& t = total[(i * kVectors + v) * kChains + chain % kChains];
        t = hn::MulAdd(w[i], xv, t);
      }
    }
  };
  int64_t c = 0;
  for (; c + turn <= cols; c += turn) {
    for (int i = 0; i < kRows; ++i) ahead.Prefetch(rows + i * row_stride, c / turn, turn * sizeof(float));
    HWY_UNROLL(4)
    for (int i = 0; i < kTurnVectors; ++i) add(c + i * lanes, i);
  }
  for (; c + lanes <= cols; c += lanes) add(c, 0);
  HWY_UNROLL(16)
  for (int i = 0; i < kRows * kVectors; ++i) {
    const auto* t = total + i * kChains;
    if constexpr (kChains == 4)
      sums[i] = sum_lanes(hn::Add(hn::Add(t[0], t[1]), hn::Add(t[2], t[3])));
    else
      sums[i] = sum_lanes(t[0]);
  }
  if (c == cols) return;
  for (int i = 0; i < kRows * kVectors; ++i)
    sums[i] += LastColumns(rows + i / kVectors * row_stride, c, cols, x + i % kVectors * x_stride);
}

// Rows [begin, end) by kVectors vectors, two rows at once: one of each half for a single vector, since memory answers
// faster to two streams than to one, else neighbours. Three would need one register more than AVX2 has.
template <int kVectors>
void RowPass(const float* w, int64_t cols, int64_t begin, int64_t end, const Ahead& ahead, const float* x,
             int64_t x_stride, const Results& out) {
  const int64_t pairs = (end - begin) / 2, apart = kVectors == 1 ? pairs : 1;
  const auto multiply = [&](int64_t row, auto num_rows) HWY_ATTR {
    constexpr int kRows = decltype(num_rows)::value;
    float sums[kRows * kVectors];
    MultiplyRows<kRows, kVectors>(w + row * cols, apart * cols, cols, ahead, x, x_stride, sums);
    for (int i = 0; i < kRows * kVectors; ++i) {
      const int64_t r = row + i / kVectors * apart;
      out.y[i % kVectors * out.y_stride + r] = sums[i] + (out.bias ? out.bias[r] : 0.0f);
    }
  };
  for (int64_t i = 0; i < pairs; ++i) multiply(begin + (kVectors == 1 ? i : 2 * i), std::integral_constant<int, 2>());
  if (begin + 2 * pairs < end) multiply(end - 1, std::integral_constant<int, 1>());
}

inline void RowProducts(const float* w, int64_t cols, int64_t begin, int64_t end, int64_t num_vectors, const float* x,
                        int64_t x_stride, const Results& out) {
  constexpr int64_t kRowBlock = 16;  // small enough to stay in cache while the vectors take turns
  constexpr int64_t kTile = 4;       // vectors at once
  const int64_t passes = num_vectors / kTile + num_vectors % kTile, row_bytes = cols * sizeof(float);
  const int64_t distance = passes > 1         ? std::min(kRowBlock, end - begin) * row_bytes
                           : num_vectors == 1 ? kBytesAheadOfStreams
                                              : std::max<int64_t>(2, kBytesAhead / row_bytes) * row_bytes;
  for (int64_t first = begin; first < end; first += kRowBlock) {
    const int64_t last = std::min(first + kRowBlock, end);
    for (int64_t v = 0, pass = 0; v < num_vectors; ++pass) {
      const auto ahead = SharedAhead(distance, row_bytes, TurnColumns() * sizeof(float), pass, passes);
      const Results here{out.bias, out.y + v * out.y_stride, out.y_stride};
      const bool tile = v + kTile <= num_vectors;
      const auto multiply = tile ? RowPass<kTile> : RowPass<1>;
      multiply(w, cols, first, last, ahead, x + v * x_stride, x_stride, here);
      v += tile ? kTile : 1;
    }
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
