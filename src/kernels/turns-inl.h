// Angles as turns, compiled once per instruction set (Highway's per-target include). A turn is 2^64: 64-bit integers
// then wrap at 2 pi by themselves, sums of increments are exact, and their order does not matter.
#if defined(PMNET_KERNELS_TURNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_TURNS_INL_H_
#undef PMNET_KERNELS_TURNS_INL_H_
#else
#define PMNET_KERNELS_TURNS_INL_H_
#endif

#include <numbers>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// An angle of x radians is x kTurnsPerRadian turns.
constexpr double kTurnsPerRadian = 0x1p64 / (2 * std::numbers::pi);

using Doubles = hn::ScalableTag<double>;
using Longs = hn::ScalableTag<int64_t>;
using HalfFloats = hn::Rebind<float, Doubles>;  // as many floats as a vector holds doubles
using HalfInts = hn::Rebind<int32_t, Doubles>;

// round(x) mod 2^64 of a double below 2^83. AVX2 cannot convert double to int64: x is split at 2^32, and adding
// 1.5 * 2^52 (or 2^52) leaves each integer half in the low bits of a double.
HWY_INLINE hn::Vec<Longs> round_to_turns(hn::Vec<Doubles> x) {
  const Doubles d;
  const Longs i;
  const auto high = hn::Floor(hn::Mul(x, hn::Set(d, 0x1p-32)));
  const auto low = hn::Round(hn::NegMulAdd(high, hn::Set(d, 0x1p32), x));  // [0, 2^32], exact before rounding
  const auto high_bits = hn::ShiftLeft<32>(hn::BitCast(i, hn::Add(high, hn::Set(d, 0x1.8p52))));
  const auto low_bits = hn::Xor(hn::BitCast(i, hn::Add(low, hn::Set(d, 0x1p52))), hn::BitCast(i, hn::Set(d, 0x1p52)));
  return hn::Add(high_bits, low_bits);
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
