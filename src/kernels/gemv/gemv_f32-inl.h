// Rows of float32 weights by operands, compiled once per instruction set (Highway's per-target include).
#if defined(PMNET_KERNELS_GEMV_F32_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_GEMV_F32_INL_H_
#undef PMNET_KERNELS_GEMV_F32_INL_H_
#else
#define PMNET_KERNELS_GEMV_F32_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "kernels/gemv/partition.h"
#include "kernels/gemv/prefetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

constexpr int64_t kStepVectors = 4;   // registers of a row between two prefetches
constexpr int64_t kTileOperands = 4;  // operands of a register tile
static_assert(max_streamed_operands(WeightType::kF32) == kTileOperands);

HWY_INLINE int64_t StepColumns() { return kStepVectors * static_cast<int64_t>(hn::Lanes(Floats())); }

// The columns beyond the last whole register. Not inlined: inside a tile it would push the sums out of registers.
inline HWY_NOINLINE float TailDot(const float* row, int64_t begin, int64_t end, const float* x) {
  float sum = 0;
  for (int64_t c = begin; c < end; ++c) sum += row[c] * x[c];
  return sum;
}

// Bandwidth-bound case, up to kTileOperands operands: kStreams rows at `row_stride` floats from each other, read
// concurrently. With several operands a block of columns is multiplied by one operand after the other; it is short
// enough to stay in the L1 cache meanwhile, and the hardware prefetches the next block. sums [num_operands, kStreams].
inline HWY_NOINLINE void StreamRows(const float* rows, int64_t row_stride, int64_t cols, int64_t num_operands,
                                    const float* x, int64_t x_stride, float* sums) {
  constexpr int64_t kBlock = 256;
  const Floats d;
  const int64_t lanes = hn::Lanes(d), pair = 2 * lanes, whole = cols / pair * pair;
  const int64_t block = num_operands == 1 ? cols : kBlock;
  HWY_ALIGN float totals[kTileOperands * kStreams * hn::MaxLanes(Floats())] = {};
  for (int64_t begin = 0; begin < whole; begin += block) {
    const int64_t end = std::min(begin + block, whole);
    for (int64_t v = 0; v < num_operands; ++v) {
      FloatVec even[kStreams], odd[kStreams];  // two chains of additions hide their latency
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
  for (int64_t i = 0; i < num_operands * kStreams; ++i)
    sums[i] = sum_lanes(hn::LoadU(d, totals + i * lanes)) +
              TailDot(rows + i % kStreams * row_stride, whole, cols, x + i / kStreams * x_stride);
}

// sums [kRows, kOperands]: a register tile of kRows rows by kOperands operands. A single operand has four chains of
// additions per row to hide their latency; several operands are chains enough.
template <int kRows, int kOperands>
HWY_INLINE void MultiplyTile(const float* rows, int64_t row_stride, int64_t cols, const Prefetcher& prefetcher,
                             const float* x, int64_t x_stride, float* sums) {
  constexpr int kChains = kOperands == 1 ? 4 : 1;
  const Floats d;
  const int64_t lanes = hn::Lanes(d), step = StepColumns();
  FloatVec total[kRows * kOperands * kChains];
  HWY_UNROLL(16)
  for (auto& t : total) t = hn::Zero(d);
  const auto add = [&](int64_t column, int chain) HWY_ATTR {
    FloatVec w[kRows];
    for (int i = 0; i < kRows; ++i) w[i] = hn::LoadU(d, rows + i * row_stride + column);
    for (int v = 0; v < kOperands; ++v) {
      const auto xv = keep_in_register(hn::LoadU(d, x + v * x_stride + column));
      for (int i = 0; i < kRows; ++i) {
        auto& t = total[(i * kOperands + v) * kChains + chain % kChains];
        t = hn::MulAdd(w[i], xv, t);
      }
    }
  };
  int64_t c = 0;
  for (; c + step <= cols; c += step) {
    for (int i = 0; i < kRows; ++i) prefetcher.Prefetch(rows + i * row_stride, c / step, step * sizeof(float));
    HWY_UNROLL(4)
    for (int i = 0; i < kStepVectors; ++i) add(c + i * lanes, i);
  }
  for (; c + lanes <= cols; c += lanes) add(c, 0);
  HWY_UNROLL(16)
  for (int i = 0; i < kRows * kOperands; ++i) {
    const auto* t = total + i * kChains;
    if constexpr (kChains == 4)
      sums[i] = sum_lanes(hn::Add(hn::Add(t[0], t[1]), hn::Add(t[2], t[3])));
    else
      sums[i] = sum_lanes(t[0]);
  }
  if (c == cols) return;
  for (int i = 0; i < kRows * kOperands; ++i)
    sums[i] += TailDot(rows + i / kOperands * row_stride, c, cols, x + i % kOperands * x_stride);
}

// Rows [begin, end) by kOperands operands, two rows at once: three rows by four operands would need one register more
// than the 16 of AVX2.
template <int kOperands>
void MultiplyRows(const float* w, int64_t cols, int64_t begin, int64_t end, const Prefetcher& prefetcher,
                  const float* x, int64_t x_stride, const Output& out) {
  const auto multiply = [&](int64_t row, auto num_rows) HWY_ATTR {
    constexpr int kRows = decltype(num_rows)::value;
    float sums[kRows * kOperands];
    MultiplyTile<kRows, kOperands>(w + row * cols, cols, cols, prefetcher, x, x_stride, sums);
    for (int i = 0; i < kRows * kOperands; ++i) out.Store(i % kOperands, row + i / kOperands, sums[i]);
  };
  int64_t row = begin;
  for (; row + 2 <= end; row += 2) multiply(row, std::integral_constant<int, 2>());
  if (row < end) multiply(row, std::integral_constant<int, 1>());
}

// Compute-bound case: a block of 16 rows stays in the L1 or L2 cache while all operands pass over it, tile by tile.
// Each pass prefetches its share of the next block.
inline void MultiplyBlocked(const float* w, int64_t cols, int64_t begin, int64_t end, int64_t num_operands,
                            const float* x, int64_t x_stride, const Output& out) {
  constexpr int64_t kRowBlock = 16;
  const int64_t passes = num_operands / kTileOperands + num_operands % kTileOperands, row_bytes = cols * sizeof(float);
  const int64_t distance = std::min(kRowBlock, end - begin) * row_bytes;
  for (int64_t first = begin; first < end; first += kRowBlock) {
    const int64_t last = std::min(first + kRowBlock, end);
    for (int64_t v = 0, pass = 0; v < num_operands; ++pass) {
      const auto prefetcher = SplitPrefetch(distance, row_bytes, StepColumns() * sizeof(float), pass, passes);
      const bool tile = v + kTileOperands <= num_operands;
      const auto multiply = tile ? MultiplyRows<kTileOperands> : MultiplyRows<1>;
      multiply(w, cols, first, last, prefetcher, x + v * x_stride, x_stride, out.From(v));
      v += tile ? kTileOperands : 1;
    }
  }
}

inline void GemvF32(const float* w, int64_t cols, const RowRange& range, int64_t num_operands, const float* x,
                    int64_t x_stride, const Output& out) {
  const int64_t end = range.begin + range.count, stride = range.stream_stride;
  if (stride == 0) return MultiplyBlocked(w, cols, range.begin, end, num_operands, x, x_stride, out);
  for (int64_t row = range.begin; row < end; ++row) {
    float sums[kTileOperands * kStreams];
    StreamRows(w + row * cols, stride * cols, cols, num_operands, x, x_stride, sums);
    for (int64_t i = 0; i < num_operands * kStreams; ++i) out.Store(i / kStreams, row + i % kStreams * stride, sums[i]);
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
