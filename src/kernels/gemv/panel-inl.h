// The panel layout in terms of registers (README.md of this folder), compiled once per instruction set (Highway's
// per-target include).
#if defined(PMNET_KERNELS_GEMV_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_GEMV_PANEL_INL_H_
#undef PMNET_KERNELS_GEMV_PANEL_INL_H_
#else
#define PMNET_KERNELS_GEMV_PANEL_INL_H_
#endif

#include <array>
#include <bit>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

using Int16s = hn::ScalableTag<int16_t>;
using Int32s = hn::ScalableTag<int32_t>;

// Columns whose products one instruction adds: 2, or 1 where a register has a single lane (HWY_SCALAR).
constexpr int64_t kPairColumns = hn::MaxLanes(Int16s()) / hn::MaxLanes(Int32s());

// The values of an operand for those columns; broadcast, they meet all rows of a panel at once.
using Pair = std::array<int16_t, kPairColumns>;

// 2L rows: two registers of int32 sums per operand.
HWY_INLINE int64_t PanelRows() { return 2 * static_cast<int64_t>(hn::Lanes(Int32s())); }

HWY_INLINE int64_t PairsPerPanel(int64_t cols) { return (cols + kPairColumns - 1) / kPairColumns; }

// Weights of a panel that one Pair is multiplied with.
HWY_INLINE int64_t PairWeights() { return PanelRows() * kPairColumns; }

HWY_INLINE int64_t PanelWeights(int64_t cols) { return PairsPerPanel(cols) * PairWeights(); }

// One register of int16 weights: the first or the second L rows of a pair of columns. int8 is widened.
template <class Weight>
HWY_INLINE hn::Vec<Int16s> LoadWeights(const Weight* w) {
  const hn::Rebind<Weight, Int16s> stored;
  if constexpr (sizeof(Weight) == sizeof(int16_t))
    return hn::LoadU(stored, w);
  else
    return hn::PromoteTo(Int16s(), hn::LoadU(stored, w));
}

// A Pair in every 32-bit lane. A template only so that the branch not taken is not compiled.
HWY_INLINE hn::Vec<Int16s> Broadcast(auto pair) {
  if constexpr (kPairColumns == 1)
    return hn::Set(Int16s(), pair[0]);
  else
    return hn::BitCast(Int16s(), hn::Set(Int32s(), std::bit_cast<int32_t>(pair)));
}

// int32 sums of L rows.
struct Sums {
  hn::Vec<Int32s> first, second;  // on x86 the second stays zero and is optimised away

  HWY_ATTR Sums() : first(hn::Zero(Int32s())), second(hn::Zero(Int32s())) {}
  // keep_in_register stops GCC from reassociating integer sums, which would spill them to the stack.
  HWY_INLINE void AddProducts(hn::Vec<Int16s> w, hn::Vec<Int16s> x) {
    first = keep_in_register(hn::ReorderWidenMulAccumulate(Int32s(), w, x, first, second));
  }
  HWY_INLINE FloatVec Total() const { return hn::ConvertTo(Floats(), hn::RearrangeToOddPlusEven(first, second)); }
};

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
