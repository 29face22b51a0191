// Panels of int16 or int8 weights by quantized operands, compiled once per instruction set (Highway's per-target
// include). Letters as in README.md: L int32 lanes, 2L rows per panel, pairs of columns.
#if defined(PMNET_KERNELS_GEMV_INT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_GEMV_INT_INL_H_
#undef PMNET_KERNELS_GEMV_INT_INL_H_
#else
#define PMNET_KERNELS_GEMV_INT_INL_H_
#endif

#include <algorithm>

#include "kernels/gemv/panel-inl.h"
#include "kernels/gemv/partition.h"
#include "kernels/gemv/prefetch-inl.h"
#include "kernels/gemv/quantize.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// Quantized operands [count, stride] as pairs of columns, and the scale of each operand.
struct PairRows {
  const Pair* data;
  int64_t stride;
  const float* scales;

  PairRows From(int64_t operand) const { return {data + operand * stride, stride, scales + operand}; }
};

constexpr int64_t kStepPairs = 4;                           // pairs of a panel between two prefetches
constexpr int64_t kBlockPairs = kNormBlock / kPairColumns;  // pairs whose int32 sums cannot overflow

template <class Weight>
constexpr int64_t kMaxStreamed =
    max_streamed_operands(sizeof(Weight) == sizeof(int16_t) ? WeightType::kBF16 : WeightType::kInt8);

// A register tile: kPanels panels by kOperands operands, all int32 sums in registers.
template <int kPanels, int kOperands, class Weight>
struct PanelTile {
  static constexpr int kSums = kOperands * kPanels * 2;

  const Weight* panels;
  int64_t panel_stride;  // weights from one panel of the tile to the next
  PairRows x;

  // totals [kOperands, kPanels, PanelRows()] += the products of pairs [begin, end), at most kBlockPairs. Prefetches
  // only if there is one panel: several are streams that the hardware prefetcher follows.
  HWY_INLINE void MultiplyBlock(int64_t begin, int64_t end, const Prefetcher& prefetcher, float* totals) const {
    const int64_t half = PanelRows() / 2, pair_weights = PairWeights();
    const int64_t step_bytes = kStepPairs * pair_weights * static_cast<int64_t>(sizeof(Weight));
    Sums sums[kSums];
    // The loops over panels and operands have to be unrolled, or GCC keeps the sums in memory.
    const auto add = [&](int64_t at) HWY_ATTR {
      HWY_UNROLL(4)
      for (int p = 0; p < kPanels; ++p) {
        const Weight* w = panels + p * panel_stride + at * pair_weights;
        const auto low = LoadWeights(w), high = LoadWeights(w + pair_weights / 2);
        HWY_UNROLL(5)
        for (int v = 0; v < kOperands; ++v) {
          const auto xv = keep_in_register(Broadcast(x.data[v * x.stride + at]));
          Sums* sum = sums + (v * kPanels + p) * 2;
          sum[0].AddProducts(low, xv);
          sum[1].AddProducts(high, xv);
        }
      }
    };
    int64_t at = begin;
    for (; at + kStepPairs <= end; at += kStepPairs) {
      if constexpr (kPanels == 1) prefetcher.Prefetch(panels, at / kStepPairs, step_bytes);
      HWY_UNROLL(kStepPairs)
      for (int i = 0; i < kStepPairs; ++i) add(at + i);
    }
    for (; at < end; ++at) add(at);
    HWY_UNROLL(10)
    for (int i = 0; i < kSums; ++i) {
      float* total = totals + i * half;
      hn::StoreU(hn::Add(hn::LoadU(Floats(), total), sums[i].Total()), Floats(), total);
    }
  }
};

// Scales the totals of rows [begin, end) of w, adds the bias and stores. totals [num_operands, stride]; column 0
// belongs to row `first_total`.
HWY_INLINE void StoreScaled(const WeightMatrix& w, int64_t begin, int64_t end, int64_t num_operands,
                            const float* scales, const float* totals, int64_t stride, int64_t first_total,
                            const Output& out) {
  for (int64_t v = 0; v < num_operands; ++v)
    for_each_vector(end - begin, [&](size_t i, auto io) HWY_ATTR {
      const auto scale = hn::Mul(io.load(w.scales + begin + i), hn::Set(Floats(), scales[v]));
      auto sum = hn::Mul(io.load(totals + v * stride + begin - first_total + i), scale);
      if (out.bias) sum = hn::Add(sum, io.load(out.bias + begin + i));
      io.store(sum, out.y + v * out.y_stride + begin + i);
    });
}

// Bandwidth-bound case: one panel of every stream at once, panels `stream_stride` rows apart, the first at row `first`.
// Several operands are multiplied one after the other with a block of 16 pairs, which stays in the L1 cache meanwhile.
template <class Weight>
HWY_NOINLINE void StreamPanels(const WeightMatrix& w, int64_t first, int64_t stream_stride, int64_t num_operands,
                               const PairRows& x, const Output& out) {
  constexpr int64_t kMaxRows = kStreams * 2 * hn::MaxLanes(Int32s());
  const int64_t rows = PanelRows(), pairs = PairsPerPanel(w.cols), weights = PanelWeights(w.cols);
  const int64_t block = num_operands == 1 ? kBlockPairs : 16;
  const Weight* panels = static_cast<const Weight*>(w.data) + (w.first_row + first) / rows * weights;
  HWY_ALIGN float totals[kMaxStreamed<Weight> * kMaxRows] = {};  // [num_operands, kStreams, rows]
  for (int64_t at = 0; at < pairs; at += block)
    for (int64_t v = 0; v < num_operands; ++v)
      PanelTile<kStreams, 1, Weight>{panels, stream_stride / rows * weights, x.From(v)}.MultiplyBlock(
          at, std::min(at + block, pairs), {}, totals + v * kStreams * rows);
  for (int64_t row = first, s = 0; s < kStreams; ++s, row += stream_stride)
    StoreScaled(w, row, row + rows, num_operands, x.scales, totals + s * rows, kStreams * rows, row, out);
}

// Compute-bound case: one panel by up to five operands at once. Rows [begin, end) of w lie in that panel.
template <int kOperands, class Weight>
HWY_NOINLINE void MultiplyPanel(const WeightMatrix& w, int64_t panel, int64_t begin, int64_t end,
                                const Prefetcher& prefetcher, const PairRows& x, const Output& out) {
  const int64_t rows = PanelRows(), pairs = PairsPerPanel(w.cols), weights = PanelWeights(w.cols);
  HWY_ALIGN float totals[kOperands * 2 * hn::MaxLanes(Int32s())] = {};
  const PanelTile<1, kOperands, Weight> tile{static_cast<const Weight*>(w.data) + panel * weights, weights, x};
  for (int64_t at = 0; at < pairs; at += kBlockPairs)
    tile.MultiplyBlock(at, std::min(at + kBlockPairs, pairs), prefetcher, totals);
  StoreScaled(w, begin, end, kOperands, x.scales, totals, rows, panel * rows - w.first_row, out);
}

template <class Weight>
void GemvInt(const WeightMatrix& w, const RowRange& range, int64_t num_operands, const PairRows& x, const Output& out) {
  constexpr int64_t kPassOperands =
      5;  // 2 weights, 1 operand and 10 sums; six operands exceed the 16 registers of AVX2
  static constexpr decltype(&MultiplyPanel<1, Weight>) kPasses[kPassOperands] = {
      MultiplyPanel<1, Weight>, MultiplyPanel<2, Weight>, MultiplyPanel<3, Weight>, MultiplyPanel<4, Weight>,
      MultiplyPanel<5, Weight>};
  const int64_t rows = PanelRows(), bytes = PanelWeights(w.cols) * static_cast<int64_t>(sizeof(Weight));
  const int64_t step_bytes = kStepPairs * PairWeights() * static_cast<int64_t>(sizeof(Weight));
  const int64_t passes = (num_operands + kPassOperands - 1) / kPassOperands, end = range.begin + range.count;
  for (int64_t first = range.begin, last; first < end; first = last) {
    const int64_t panel = (w.first_row + first) / rows;
    last = std::min((panel + 1) * rows - w.first_row, end);
    if (range.stream_stride > 0) {
      StreamPanels<Weight>(w, first, range.stream_stride, num_operands, x, out);
      continue;
    }
    for (int64_t pass = 0; pass < passes; ++pass) {
      const int64_t v = num_operands * pass / passes, count = num_operands * (pass + 1) / passes - v;
      const Prefetcher prefetcher = SplitPrefetch(passes > 1 ? bytes : kPrefetchBytes, bytes, step_bytes, pass, passes);
      kPasses[count - 1](w, panel, first, last, prefetcher, x.From(v), out.From(v));
    }
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
