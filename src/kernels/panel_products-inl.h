// Panels of weights by vectors, compiled once per instruction set (Highway's per-target include).
#if defined(PMNET_KERNELS_PANEL_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_PANEL_PRODUCTS_INL_H_
#undef PMNET_KERNELS_PANEL_PRODUCTS_INL_H_
#else
#define PMNET_KERNELS_PANEL_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "kernels/products-inl.h"
#include "kernels/weight_panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// Vectors as cells of the panels' type, and what their numbers are to be scaled by.
template <class P>
struct CellRows {
  const typename P::Cell* data;
  int64_t stride;
  const float* scales;  // null: 1
};

constexpr int64_t kTurnRegisters = 4;  // of a panel between two requests to memory

// With few vectors two panels at once: memory answers faster to two streams than to one.
constexpr int64_t PanelsTogether(int64_t num_vectors) { return num_vectors <= 2 ? 2 : 1; }

// One pass over the rows [begin, end), which lie in kPanels panels, with kVectors vectors.
template <int kPanels, int kVectors, class P>
struct PanelPass {
  using Weight = typename P::Weight;
  static constexpr int kSums = kVectors * kPanels * 2;    // registers of them
  static constexpr int kChains = std::max(1, 8 / kSums);  // enough at once to hide the latency of the additions

  const Weight* panels;
  int64_t panel_weights;
  CellRows<P> x;

  // sums [kVectors, kPanels, 2 L] += the registers [begin, end) of all panels.
  HWY_INLINE void Multiply(int64_t begin, int64_t end, const Ahead& ahead, float* sums) const {
    const int64_t lanes = PanelRows() / 2;
    typename P::Total total[kChains * kSums];
    HWY_UNROLL(16)
    for (auto& t : total) t = P::Zero();
    const auto add = [&](int64_t at, int chain) HWY_ATTR {
      auto* t = total + chain % kChains * kSums;
      for (int p = 0; p < kPanels; ++p) {
        const auto w = P::Load(panels + p * panel_weights + at * RegisterWeights<P>());
        for (int v = 0; v < kVectors; ++v) {
          const auto xv = keep_in_register(P::Broadcast(x.data[v * x.stride + at]));
          auto* sum = t + (v * kPanels + p) * 2;
          sum[0] = P::MulAdd(w.low, xv, sum[0]);
          sum[1] = P::MulAdd(w.high, xv, sum[1]);
        }
      }
    };
    int64_t at = begin;
    for (; at + kTurnRegisters <= end; at += kTurnRegisters) {
      for (int p = 0; p < kPanels; ++p)
        ahead.Prefetch(panels + p * panel_weights, at / kTurnRegisters, kTurnRegisters * RegisterBytes<P>());
      if constexpr (std::is_same_v<typename P::Cell, float>) {
        HWY_UNROLL(4)
        for (int i = 0; i < kTurnRegisters; ++i) add(at + i, i);
      } else {
        // Unrolled, sums of integers would be reordered until they no longer fit into the registers.
        HWY_UNROLL(1)
        for (int i = 0; i < kTurnRegisters; ++i) add(at + i, i);
      }
    }
    for (; at < end; ++at) add(at, 0);
    HWY_UNROLL(10)
    for (int i = 0; i < kSums; ++i) {
      auto sum = hn::LoadU(Floats(), sums + i * lanes);
      for (int chain = 0; chain < kChains; ++chain) sum = hn::Add(sum, P::Sum(total[chain * kSums + i]));
      hn::StoreU(sum, Floats(), sums + i * lanes);
    }
  }

  static HWY_NOINLINE void Run(const WeightMatrix& w, int64_t begin, int64_t end, const Ahead& ahead,
                               const CellRows<P>& x, const Results& out) {
    const int64_t rows = PanelRows(), row = w.first_row + begin;
    const int64_t registers = RegistersPerPanel<P>(w.cols), panel_weights = PanelWeights<P>(w.cols);
    const PanelPass pass{static_cast<const Weight*>(w.data) + row / rows * panel_weights, panel_weights, x};
    HWY_ALIGN float sums[kSums * hn::MaxLanes(Floats())] = {};
    for (int64_t at = 0; at < registers; at += P::kMaxRegisters)
      pass.Multiply(at, std::min(registers - at, P::kMaxRegisters) + at, ahead, sums);
    for (int64_t v = 0; v < kVectors; ++v)
      for_each_vector(end - begin, [&](size_t i, auto io) HWY_ATTR {
        auto sum = io.load(sums + v * kPanels * rows + row % rows + i);
        if (x.scales) sum = hn::Mul(sum, hn::Mul(io.load(w.scales + begin + i), hn::Set(Floats(), x.scales[v])));
        if (out.bias) sum = hn::Add(sum, io.load(out.bias + begin + i));
        io.store(sum, out.y + v * out.y_stride + begin + i);
      });
  }
};

template <class P>
void PanelProducts(const WeightMatrix& w, int64_t begin, int64_t end, int64_t num_vectors, const CellRows<P>& x,
                   const Results& out) {
  constexpr int64_t kPassVectors = 5;  // with six, AVX2 has one register too few
  static constexpr decltype(&PanelPass<1, 1, P>::Run) kPasses[2][kPassVectors] = {
      {PanelPass<1, 1, P>::Run, PanelPass<1, 2, P>::Run, PanelPass<1, 3, P>::Run, PanelPass<1, 4, P>::Run,
       PanelPass<1, 5, P>::Run},
      {PanelPass<2, 1, P>::Run, PanelPass<2, 2, P>::Run}};
  const int64_t rows = PanelRows(), bytes = RegistersPerPanel<P>(w.cols) * RegisterBytes<P>();
  const int64_t passes = (num_vectors + kPassVectors - 1) / kPassVectors;
  for (int64_t first = begin, last; first < end; first = last) {
    const int64_t panel_end = first + rows - (w.first_row + first) % rows;
    const int64_t panels = panel_end < end ? PanelsTogether(num_vectors) : 1;
    last = std::min(panel_end + (panels - 1) * rows, end);
    const int64_t distance = passes > 1 ? bytes : panels > 1 ? kBytesAheadOfStreams : kBytesAhead;
    for (int64_t pass = 0; pass < passes; ++pass) {
      const int64_t v = num_vectors * pass / passes, count = num_vectors * (pass + 1) / passes - v;
      kPasses[panels - 1][count - 1](w, first, last,
                                     SharedAhead(distance, bytes, kTurnRegisters * RegisterBytes<P>(), pass, passes),
                                     {x.data + v * x.stride, x.stride, x.scales ? x.scales + v : nullptr},
                                     {out.bias, out.y + v * out.y_stride, out.y_stride});
    }
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
