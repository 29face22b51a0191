// Rows of float32 weights by vectors, compiled once per instruction set (Highway's per-target include).
#if defined(PMNET_KERNELS_ROW_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_ROW_PRODUCTS_INL_H_
#undef PMNET_KERNELS_ROW_PRODUCTS_INL_H_
#else
#define PMNET_KERNELS_ROW_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "kernels/matvec.h"
#include "kernels/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

constexpr int64_t kTurnVectors = 4;  // of a row between two requests to memory
constexpr int64_t kTile = 4;         // vectors at once

HWY_INLINE int64_t TurnColumns() { return kTurnVectors * static_cast<int64_t>(hn::Lanes(Floats())); }

// The columns that fill no vector. Apart from the tiles, whose sums would else not stay in registers.
inline HWY_NOINLINE float LastColumns(const float* row, int64_t begin, int64_t end, const float* x) {
  float sum = 0;
  for (int64_t c = begin; c < end; ++c) sum += row[c] * x[c];
  return sum;
}

// Up to kTile vectors wait for memory: a row of every stream at once, one vector after the other with a block of their
// columns, short enough to stay in the first cache meanwhile and for the hardware to have asked for the next one. sums
// [num_vectors, kStreams].
inline HWY_NOINLINE void StreamRows(const float* rows, int64_t row_stride, int64_t cols, int64_t num_vectors,
                                    const float* x, int64_t x_stride, float* sums) {
  constexpr int64_t kBlock = 256;
  const Floats d;
  const int64_t lanes = hn::Lanes(d), pair = 2 * lanes, whole = cols / pair * pair;
  const int64_t block = num_vectors == 1 ? cols : kBlock;
  HWY_ALIGN float totals[kTile * kStreams * hn::MaxLanes(Floats())] = {};
  for (int64_t begin = 0; begin < whole; begin += block) {
    const int64_t end = std::min(begin + block, whole);
    for (int64_t v = 0; v < num_vectors; ++v) {
      FloatVec even[kStreams], odd[kStreams];  // two sums: one would wait for itself
      HWY_UNROLL(4)
      for (int i = 0; i < kStreams; ++i) even[i] = odd[i] = hn::Zero(d);
      for (int64_t c = begin; c < end; c += pair) {
        const auto x0 = hn::LoadU(d, x + v * x_stride + c), x1 = hn::LoadU(d, x + v * x_stride + c + lanes);
        HWY_UNROLL(4)
        for (int i = 0; i < kStreams; ++i) {
          even[i] = hn::MulAdd(hn::LoadU(d, rows + i * row_stride + c), x0, even[i]);
          odd[i] = hn::MulAdd(hn::LoadU(d, rows + i * row_stride + c + lanes), x1, odd[i]);
        }
      }
      HWY_UNROLL(4)
      for (int i = 0; i < kStreams; ++i) {
        float* total = totals + (v * kStreams + i) * lanes;
        hn::StoreU(hn::Add(hn::LoadU(d, total), hn::Add(even[i], odd[i])), d, total);
      }
    }
  }
  for (int64_t i = 0; i < num_vectors * kStreams; ++i)
    sums[i] = sum_lanes(hn::LoadU(d, totals + i * lanes)) +
              LastColumns(rows + i % kStreams * row_stride, whole, cols, x + i / kStreams * x_stride);
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

// Rows [begin, end) by kVectors vectors, two rows at once. Three would need one register more than AVX2 has.
template <int kVectors>
void RowPass(const float* w, int64_t cols, int64_t begin, int64_t end, const Ahead& ahead, const float* x,
             int64_t x_stride, const Results& out) {
  const auto multiply = [&](int64_t row, auto num_rows) HWY_ATTR {
    constexpr int kRows = decltype(num_rows)::value;
    float sums[kRows * kVectors];
    MultiplyRows<kRows, kVectors>(w + row * cols, cols, cols, ahead, x, x_stride, sums);
    for (int i = 0; i < kRows * kVectors; ++i) out.Store(i % kVectors, row + i / kVectors, sums[i]);
  };
  int64_t row = begin;
  for (; row + 2 <= end; row += 2) multiply(row, std::integral_constant<int, 2>());
  if (row < end) multiply(row, std::integral_constant<int, 1>());
}

// All rows by all vectors, a block of rows that stays in cache while the vectors take turns.
inline void ProductsInTurns(const float* w, int64_t cols, int64_t begin, int64_t end, int64_t num_vectors,
                            const float* x, int64_t x_stride, const Results& out) {
  constexpr int64_t kRowBlock = 16;
  const int64_t passes = num_vectors / kTile + num_vectors % kTile, row_bytes = cols * sizeof(float);
  const int64_t distance = std::min(kRowBlock, end - begin) * row_bytes;
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

inline void RowProducts(const float* w, int64_t cols, const RowPiece& piece, int64_t num_vectors, const float* x,
                        int64_t x_stride, const Results& out) {
  const int64_t end = piece.begin + piece.count;
  if (piece.apart == 0) return ProductsInTurns(w, cols, piece.begin, end, num_vectors, x, x_stride, out);
  for (int64_t row = piece.begin; row < end; ++row) {
    float sums[kTile * kStreams];
    StreamRows(w + row * cols, piece.apart * cols, cols, num_vectors, x, x_stride, sums);
    for (int64_t i = 0; i < num_vectors * kStreams; ++i)
      out.Store(i / kStreams, row + i % kStreams * piece.apart, sums[i]);
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
