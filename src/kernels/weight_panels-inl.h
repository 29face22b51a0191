// Panels of weights (kernels/weight_packing.h), compiled once per instruction set (Highway's per-target include).
#if defined(PMNET_KERNELS_WEIGHT_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_WEIGHT_PANELS_INL_H_
#undef PMNET_KERNELS_WEIGHT_PANELS_INL_H_
#else
#define PMNET_KERNELS_WEIGHT_PANELS_INL_H_
#endif

#include <array>
#include <bit>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

using Shorts = hn::ScalableTag<int16_t>;
using Ints = hn::ScalableTag<int32_t>;

// Columns side by side, their products added by one instruction; one if registers have one lane.
constexpr int64_t kRegisterColumns = hn::MaxLanes(Shorts()) / hn::MaxLanes(Ints());

// A vector's numbers for those columns, which meet all rows of a panel at once.
using Cell = std::array<int16_t, kRegisterColumns>;

HWY_INLINE int64_t PanelRows() { return 2 * static_cast<int64_t>(hn::Lanes(Ints())); }

HWY_INLINE int64_t RegistersPerPanel(int64_t cols) { return (cols + kRegisterColumns - 1) / kRegisterColumns; }

// How many weights meet one cell.
HWY_INLINE int64_t RegisterWeights() { return PanelRows() * kRegisterColumns; }

HWY_INLINE int64_t PanelWeights(int64_t cols) { return RegistersPerPanel(cols) * RegisterWeights(); }

// Those of the first half of the rows, or of the second.
template <class Weight>
HWY_INLINE hn::Vec<Shorts> LoadWeights(const Weight* w) {
  const hn::Rebind<Weight, Shorts> stored;
  if constexpr (sizeof(Weight) == sizeof(int16_t))
    return hn::LoadU(stored, w);
  else
    return hn::PromoteTo(Shorts(), hn::LoadU(stored, w));
}

HWY_INLINE hn::Vec<Shorts> Broadcast(auto x) {  // a Cell; a template, for the branch not taken
  if constexpr (kRegisterColumns == 1)
    return hn::Set(Shorts(), x[0]);
  else
    return hn::BitCast(Shorts(), hn::Set(Ints(), std::bit_cast<int32_t>(x)));
}

// The sums of as many rows as a register has 32-bit integers.
struct Sums {
  hn::Vec<Ints> first, second;  // on x86 the second stays zero and costs nothing

  HWY_ATTR Sums() : first(hn::Zero(Ints())), second(hn::Zero(Ints())) {}
  // Kept in order: GCC would else reorder sums of integers until they no longer fit into the registers.
  HWY_INLINE void AddProducts(hn::Vec<Shorts> w, hn::Vec<Shorts> x) {
    first = keep_in_register(hn::ReorderWidenMulAccumulate(Ints(), w, x, first, second));
  }
  HWY_INLINE FloatVec Total() const { return hn::ConvertTo(Floats(), hn::RearrangeToOddPlusEven(first, second)); }
};

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
