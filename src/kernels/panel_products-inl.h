// Panels of weights by vectors, compiled once per instruction set (Highway's per-target include).
#if defined(PMNET_KERNELS_PANEL_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_PANEL_PRODUCTS_INL_H_
#undef PMNET_KERNELS_PANEL_PRODUCTS_INL_H_
#else
#define PMNET_KERNELS_PANEL_PRODUCTS_INL_H_
#endif

#include <algorithm>

#include "kernels/fixed_point.h"
#include "kernels/products-inl.h"
#include "kernels/weight_panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// Vectors as cells, and what their numbers are to be multiplied by.
struct CellRows {
  const Cell* data;
  int64_t stride;
  const float* scales;

  CellRows from(int64_t vector) const { return {data + vector * stride, stride, scales + vector}; }
};

constexpr int64_t kTurnRegisters = 4;                                  // of a panel between two requests to memory
constexpr int64_t kBlockRegisters = kBlockColumns / kRegisterColumns;  // whose sums fit in 32 bits

// kPanels panels by kVectors vectors, all sums in registers.
template <int kPanels, int kVectors, class Weight>
struct PanelTile {
  static constexpr int kSums = kVectors * kPanels * 2;

  const Weight* panels;
  int64_t panel_weights;
  CellRows x;

  // totals [kVectors, kPanels, PanelRows()] += the registers [begin, end) of all panels. Asks for memory if there is
  // one panel; several the hardware foresees.
  HWY_INLINE void MultiplyBlock(int64_t begin, int64_t end, const Ahead& ahead, float* totals) const {
    const int64_t half = PanelRows() / 2, register_weights = RegisterWeights();
    const int64_t turn_bytes = kTurnRegisters * register_weights * static_cast<int64_t>(sizeof(Weight));
    Sums sums[kSums];
    // Unrolled, or GCC leaves the sums in memory.
    const auto add = [&](int64_t at) HWY_ATTR {
      HWY_UNROLL(4)
      for (int p = 0; p < kPanels; ++p) {
        const Weight* w = panels + p * panel_weights + at * register_weights;
        const auto low = LoadWeights(w), high = LoadWeights(w + register_weights / 2);
        HWY_UNROLL(5)
        for (int v = 0; v < kVectors; ++v) {
          const auto xv = keep_in_register(Broadcast(x.data[v * x.stride + at]));
          Sums* sum = sums + (v * kPanels + p) * 2;
          sum[0].AddProducts(low, xv);
          sum[1].AddProducts(high, xv);
        }
      }
    };
    int64_t at = begin;
    for (; at + kTurnRegisters <= end; at += kTurnRegisters) {
      if constexpr (kPanels == 1) ahead.Prefetch(panels, at / kTurnRegisters, turn_bytes);
      HWY_UNROLL(kTurnRegisters)
      for (int i = 0; i < kTurnRegisters; ++i) add(at + i);
    }
    for (; at < end; ++at) add(at);
    HWY_UNROLL(10)
    for (int i = 0; i < kSums; ++i) {
      float* total = totals + i * half;
      hn::StoreU(hn::Add(hn::LoadU(Floats(), total), sums[i].Total()), Floats(), total);
    }
  }
};

// Rows [begin, end) of w, of which totals [num_vectors, stride] holds the sums from that of row `first_total` on.
HWY_INLINE void StoreScaled(const WeightMatrix& w, int64_t begin, int64_t end, int64_t num_vectors, const float* scales,
                            const float* totals, int64_t stride, int64_t first_total, const Results& out) {
  for (int64_t v = 0; v < num_vectors; ++v)
    for_each_vector(end - begin, [&](size_t i, auto io) HWY_ATTR {
      const auto scale = hn::Mul(io.load(w.scales + begin + i), hn::Set(Floats(), scales[v]));
      auto sum = hn::Mul(io.load(totals + v * stride + begin - first_total + i), scale);
      if (out.bias) sum = hn::Add(sum, io.load(out.bias + begin + i));
      io.store(sum, out.y + v * out.y_stride + begin + i);
    });
}

// Few vectors wait for memory: a panel of every stream at once, one vector after the other with a block of them, short
// enough to stay in the first cache meanwhile and for the hardware to have asked for the next one. Widening int8
// weights once per vector would cost more than that gains.
template <class Weight>
constexpr int64_t kMostStreamed = sizeof(Weight) == sizeof(int16_t) ? 5 : 1;

// The rows of whole panels from row `first` on, and those `apart` rows behind each other.
template <class Weight>
HWY_NOINLINE void StreamPanels(const WeightMatrix& w, int64_t first, int64_t apart, int64_t num_vectors,
                               const CellRows& x, const Results& out) {
  constexpr int64_t kMaxRows = kStreams * 2 * hn::MaxLanes(Ints());
  const int64_t rows = PanelRows(), registers = RegistersPerPanel(w.cols), weights = PanelWeights(w.cols);
  const int64_t block = num_vectors == 1 ? kBlockRegisters : 16;
  const Weight* panels = static_cast<const Weight*>(w.data) + (w.first_row + first) / rows * weights;
  HWY_ALIGN float totals[kMostStreamed<Weight> * kMaxRows] = {};  // [num_vectors, kStreams, rows]
  for (int64_t at = 0; at < registers; at += block)
    for (int64_t v = 0; v < num_vectors; ++v)
      PanelTile<kStreams, 1, Weight>{panels, apart / rows * weights, x.from(v)}.MultiplyBlock(
          at, std::min(at + block, registers), {}, totals + v * kStreams * rows);
  for (int64_t row = first, s = 0; s < kStreams; ++s, row += apart)
    StoreScaled(w, row, row + rows, num_vectors, x.scales, totals + s * rows, kStreams * rows, row, out);
}

// Many vectors wait for products: one panel and up to five vectors at once.
template <int kVectors, class Weight>
HWY_NOINLINE void MultiplyPanel(const WeightMatrix& w, int64_t panel, int64_t begin, int64_t end, const Ahead& ahead,
                                const CellRows& x, const Results& out) {
  const int64_t rows = PanelRows(), registers = RegistersPerPanel(w.cols), weights = PanelWeights(w.cols);
  HWY_ALIGN float totals[kVectors * 2 * hn::MaxLanes(Ints())] = {};
  const PanelTile<1, kVectors, Weight> tile{static_cast<const Weight*>(w.data) + panel * weights, weights, x};
  for (int64_t at = 0; at < registers; at += kBlockRegisters)
    tile.MultiplyBlock(at, std::min(at + kBlockRegisters, registers), ahead, totals);
  StoreScaled(w, begin, end, kVectors, x.scales, totals, rows, panel * rows - w.first_row, out);
}

template <class Weight>
void PanelProducts(const WeightMatrix& w, const RowPiece& piece, int64_t num_vectors, const CellRows& x,
                   const Results& out) {
  constexpr int64_t kPassVectors = 5;  // with six, AVX2 has one register too few
  static constexpr decltype(&MultiplyPanel<1, Weight>) kPasses[kPassVectors] = {
      MultiplyPanel<1, Weight>, MultiplyPanel<2, Weight>, MultiplyPanel<3, Weight>, MultiplyPanel<4, Weight>,
      MultiplyPanel<5, Weight>};
  const int64_t rows = PanelRows(), bytes = PanelWeights(w.cols) * static_cast<int64_t>(sizeof(Weight));
  const int64_t turn_bytes = kTurnRegisters * RegisterWeights() * static_cast<int64_t>(sizeof(Weight));
  const int64_t passes = (num_vectors + kPassVectors - 1) / kPassVectors, end = piece.begin + piece.count;
  for (int64_t first = piece.begin, last; first < end; first = last) {
    const int64_t panel = (w.first_row + first) / rows;
    last = std::min((panel + 1) * rows - w.first_row, end);
    if (piece.apart > 0) {
      StreamPanels<Weight>(w, first, piece.apart, num_vectors, x, out);
      continue;
    }
    for (int64_t pass = 0; pass < passes; ++pass) {
      const int64_t v = num_vectors * pass / passes, count = num_vectors * (pass + 1) / passes - v;
      const Ahead ahead = SharedAhead(passes > 1 ? bytes : kBytesAhead, bytes, turn_bytes, pass, passes);
      kPasses[count - 1](w, panel, first, last, ahead, x.from(v), {out.bias, out.y + v * out.y_stride, out.y_stride});
    }
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
