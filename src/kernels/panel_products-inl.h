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
};

constexpr int64_t kTurnRegisters = 4;                                  // of a panel between two requests to memory
constexpr int64_t kTurnsAheadOfStreams = 2;                            // with two panels: asking for more is slower
constexpr int64_t kBlockRegisters = kBlockColumns / kRegisterColumns;  // whose sums fit in 32 bits

template <class Weight>
HWY_INLINE int64_t TurnBytes() {
  return kTurnRegisters * RegisterWeights() * static_cast<int64_t>(sizeof(Weight));
}

// With few vectors two panels at once: memory answers faster to two streams than to one.
constexpr int64_t PanelsTogether(int64_t num_vectors) { return num_vectors <= 2 ? 2 : 1; }

// One pass over the rows [begin, end), which lie in kPanels panels, with kVectors vectors.
template <int kPanels, int kVectors, class Weight>
struct PanelPass {
  static constexpr int kSums = kVectors * kPanels * 2;

  const Weight* panels;
  int64_t panel_weights;
  CellRows x;

  // totals [kVectors, kPanels, PanelRows()] += the registers [begin, end) of all panels.
  HWY_INLINE void MultiplyBlock(int64_t begin, int64_t end, const Ahead& ahead, float* totals) const {
    const int64_t half = PanelRows() / 2, register_weights = RegisterWeights();
    Sums sums[kSums];
    // Unrolled, or GCC leaves the sums in memory.
    const auto add = [&](int64_t at) HWY_ATTR {
      HWY_UNROLL(2)
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
      for (int p = 0; p < kPanels; ++p)
        ahead.Prefetch(panels + p * panel_weights, at / kTurnRegisters, TurnBytes<Weight>());
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

  static HWY_NOINLINE void Run(const WeightMatrix& w, int64_t begin, int64_t end, const Ahead& ahead, const CellRows& x,
                               const Results& out) {
    const int64_t rows = PanelRows(), row = w.first_row + begin;
    const int64_t registers = RegistersPerPanel(w.cols), panel_weights = PanelWeights(w.cols);
    const PanelPass pass{static_cast<const Weight*>(w.data) + row / rows * panel_weights, panel_weights, x};
    HWY_ALIGN float totals[kSums * hn::MaxLanes(Floats())] = {};
    for (int64_t at = 0; at < registers; at += kBlockRegisters)
      pass.MultiplyBlock(at, std::min(at + kBlockRegisters, registers), ahead, totals);
    for (int64_t v = 0; v < kVectors; ++v)
      for_each_vector(end - begin, [&](size_t i, auto io) HWY_ATTR {
        const auto scale = hn::Mul(io.load(w.scales + begin + i), hn::Set(Floats(), x.scales[v]));
        auto sum = hn::Mul(io.load(totals + v * kPanels * rows + row % rows + i), scale);
        if (out.bias) sum = hn::Add(sum, io.load(out.bias + begin + i));
        io.store(sum, out.y + v * out.y_stride + begin + i);
      });
  }
};

template <class Weight>
void PanelProducts(const WeightMatrix& w, int64_t begin, int64_t end, int64_t num_vectors, const CellRows& x,
                   const Results& out) {
  constexpr int64_t kPassVectors = 5;  // with six, AVX2 has one register too few
  static constexpr decltype(&PanelPass<1, 1, Weight>::Run) kPasses[2][kPassVectors] = {
      {PanelPass<1, 1, Weight>::Run, PanelPass<1, 2, Weight>::Run, PanelPass<1, 3, Weight>::Run,
       PanelPass<1, 4, Weight>::Run, PanelPass<1, 5, Weight>::Run},
      {PanelPass<2, 1, Weight>::Run, PanelPass<2, 2, Weight>::Run}};
  const int64_t rows = PanelRows(), bytes = PanelWeights(w.cols) * static_cast<int64_t>(sizeof(Weight));
  const int64_t turn_bytes = TurnBytes<Weight>();
  const int64_t passes = (num_vectors + kPassVectors - 1) / kPassVectors;
  for (int64_t first = begin, last; first < end; first = last) {
    const int64_t panel_end = first + rows - (w.first_row + first) % rows;
    const int64_t panels = panel_end < end ? PanelsTogether(num_vectors) : 1;
    last = std::min(panel_end + (panels - 1) * rows, end);
    const int64_t distance = passes > 1 ? bytes : panels > 1 ? kTurnsAheadOfStreams * turn_bytes : kBytesAhead;
    for (int64_t pass = 0; pass < passes; ++pass) {
      const int64_t v = num_vectors * pass / passes, count = num_vectors * (pass + 1) / passes - v;
      kPasses[panels - 1][count - 1](w, first, last, SharedAhead(distance, bytes, turn_bytes, pass, passes),
                                     {x.data + v * x.stride, x.stride, x.scales + v},
                                     {out.bias, out.y + v * out.y_stride, out.y_stride});
    }
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
