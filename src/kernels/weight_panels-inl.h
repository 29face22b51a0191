// Panels of weights (kernels/weight_packing.h) in each type they are stored in, compiled once per instruction set
// (Highway's per-target include).
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

HWY_INLINE int64_t PanelRows() { return 2 * static_cast<int64_t>(hn::Lanes(Floats())); }

// A register of weights becomes two to multiply with, of the first L rows and of the last. A cell, a vector's number
// for a column or its numbers for the columns that share a register, meets all rows at once.
struct BF16Panels {
  using Weight = uint16_t;
  using Cell = float;
  using Total = FloatVec;
  struct Weights {
    FloatVec low, high;
  };
  static constexpr int64_t kColumns = 1;                      // of a register
  static constexpr int64_t kMaxRegisters = int64_t{1} << 62;  // of one sum

  static HWY_ATTR Weights Load(const Weight* w) {
    const hn::RebindToUnsigned<Floats> bits;
    const auto both = keep_in_register(hn::LoadU(bits, reinterpret_cast<const uint32_t*>(w)));
    return {hn::BitCast(Floats(), hn::ShiftLeft<16>(both)),
            hn::BitCast(Floats(), hn::And(both, hn::Set(bits, 0xFFFF0000u)))};
  }
  static HWY_ATTR FloatVec Broadcast(Cell x) { return hn::Set(Floats(), x); }
  static HWY_ATTR Total Zero() { return hn::Zero(Floats()); }
  static HWY_ATTR Total MulAdd(FloatVec w, FloatVec x, Total total) { return hn::MulAdd(w, x, total); }
  static HWY_ATTR FloatVec Sum(Total total) { return total; }

  static int64_t Place(int64_t row, int64_t /*column*/, int64_t lanes) { return row % lanes * 2 + row / lanes; }
  static float Widen(Weight w) { return std::bit_cast<float>(uint32_t{w} << 16); }
};

// Int8 weights are multiplied with vectors rounded to 16 bits (an error 128 times smaller than that of the weights) and
// summed in 32-bit integers: half the instructions of going through floats.
struct Int8Panels {
  using Weight = int8_t;
  using Shorts = hn::ScalableTag<int16_t>;
  using Ints = hn::ScalableTag<int32_t>;
  static constexpr int64_t kColumns = hn::MaxLanes(Shorts()) / hn::MaxLanes(Ints());  // one if registers have one lane
  using Cell = std::array<int16_t, kColumns>;
  struct Total {
    hn::Vec<Ints> first, second;  // of both columns; on x86 the second stays zero and costs nothing
    HWY_ATTR Total() : first(hn::Zero(Ints())), second(hn::Zero(Ints())) {}
  };
  struct Weights {
    hn::Vec<Shorts> low, high;
  };
  // Each adds two products of at most 128 * 32767 to a lane: so many fit in 32 bits.
  static constexpr int64_t kMaxRegisters = 256;

  static HWY_ATTR Weights Load(const Weight* w) {
    const hn::Rebind<int8_t, Shorts> half;
    return {hn::PromoteTo(Shorts(), hn::LoadU(half, w)), hn::PromoteTo(Shorts(), hn::LoadU(half, w + hn::Lanes(half)))};
  }
  static HWY_ATTR hn::Vec<Shorts> Broadcast(auto x) {  // a Cell
    if constexpr (kColumns == 1)
      return hn::Set(Shorts(), x[0]);
    else
      return hn::BitCast(Shorts(), hn::Set(Ints(), std::bit_cast<int32_t>(x)));
  }
  static HWY_ATTR Total Zero() { return Total(); }
  static HWY_ATTR Total MulAdd(hn::Vec<Shorts> w, hn::Vec<Shorts> x, Total total) {
    total.first = hn::ReorderWidenMulAccumulate(Ints(), w, x, total.first, total.second);
    return total;
  }
  static HWY_ATTR FloatVec Sum(Total total) {
    return hn::ConvertTo(Floats(), hn::RearrangeToOddPlusEven(total.first, total.second));
  }

  static int64_t Place(int64_t row, int64_t column, int64_t /*lanes*/) { return row * kColumns + column; }
  static float Widen(Weight w) { return w; }
};

template <class P>
HWY_INLINE int64_t RegisterWeights() {
  return PanelRows() * P::kColumns;
}
template <class P>
HWY_INLINE int64_t RegistersPerPanel(int64_t cols) {
  return (cols + P::kColumns - 1) / P::kColumns;
}
template <class P>
HWY_INLINE int64_t RegisterBytes() {
  return RegisterWeights<P>() * static_cast<int64_t>(sizeof(typename P::Weight));
}
template <class P>
HWY_INLINE int64_t PanelWeights(int64_t cols) {
  return RegistersPerPanel<P>(cols) * RegisterWeights<P>();
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
