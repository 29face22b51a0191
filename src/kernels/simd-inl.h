// Vector helpers shared by the kernels, compiled once per instruction set (Highway's per-target include).
//
// Names: functions that other kernels call are snake_case; functions that HWY_EXPORT dispatches to are PascalCase.
#if defined(PMNET_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_SIMD_INL_H_
#undef PMNET_KERNELS_SIMD_INL_H_
#else
#define PMNET_KERNELS_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVec = hn::Vec<Floats>;

// Loads and stores of a whole vector, or of its first lanes only, for the tail of a row that the vector width does not
// divide. PartVector loads zeros into the other lanes and leaves their memory alone.
struct WholeVector {
  FloatVec load(const float* p) const { return hn::LoadU(Floats(), p); }
  void store(FloatVec v, float* p) const { hn::StoreU(v, Floats(), p); }
  FloatVec only_active(FloatVec v) const { return v; }
  FloatVec active_or(FloatVec v, FloatVec) const { return v; }
};
struct PartVector {
  hn::Mask<Floats> active;
  HWY_ATTR FloatVec load(const float* p) const { return hn::MaskedLoad(active, Floats(), p); }
  HWY_ATTR void store(FloatVec v, float* p) const { hn::BlendedStore(v, active, Floats(), p); }
  HWY_ATTR FloatVec only_active(FloatVec v) const { return hn::IfThenElseZero(active, v); }
  HWY_ATTR FloatVec active_or(FloatVec v, FloatVec other) const { return hn::IfThenElse(active, v, other); }
};

// Calls body(i, io) for every vector of a row of n floats: `i` is its first element, `io` a WholeVector or PartVector.
template <class Body>
HWY_INLINE void for_each_vector(size_t n, Body&& body) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, WholeVector{});
  if (i < n) body(i, PartVector{hn::FirstN(d, n - i)});
}

// Keeps a loaded vector in a register: GCC would otherwise repeat the load as a memory operand of every instruction
// that uses it, and reassociate integer sums.
template <class V>
HWY_INLINE V keep_in_register(V v) {
#if HWY_ARCH_X86 && HWY_COMPILER_GCC_ACTUAL && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  __asm__("" : "+v"(v.raw));
#endif
  return v;
}

HWY_INLINE float sum_lanes(FloatVec v) {
  const Floats d;
  return hn::GetLane(hn::SumOfLanes(d, v));
}

// Limits x to [low, high]; NaN stays NaN. On SIMD targets that costs nothing: if an operand is NaN, Min and Max of x86
// return the second one and those of NEON return NaN. The scalar ones return the other operand.
HWY_INLINE FloatVec clamp(FloatVec x, float low, float high) {
  const Floats d;
  const auto limited = hn::Min(hn::Set(d, high), hn::Max(hn::Set(d, low), x));
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return hn::IfThenElse(hn::Eq(x, x), limited, x);
#else
  return limited;
#endif
}

// tanh as x P(x^2) / Q(x^2), fitted on |x| <= 9 (relative error of the exact quotient 7e-9); beyond, tanh is +-1.
HWY_INLINE FloatVec tanh(FloatVec x) {
  const Floats d;
  const auto c = [&](float value) HWY_ATTR { return hn::Set(d, value); };
  x = clamp(x, -9.0f, 9.0f);
  const auto z = hn::Mul(x, x);
  auto p = hn::MulAdd(z, c(-8.489197300849682e-14f), c(5.278160200572479e-11f));
  p = hn::MulAdd(z, p, c(-2.0225716212962652e-08f));
  p = hn::MulAdd(z, p, c(1.1154440471727867e-05f));
  p = hn::MulAdd(z, p, c(0.003103969618678093f));
  p = hn::MulAdd(z, p, c(0.1308402270078659f));
  p = hn::MulAdd(z, p, c(1.0f));
  auto q = hn::MulAdd(z, c(0.00025461643235757947f), c(0.024495232850313187f));
  q = hn::MulAdd(z, q, c(0.46417349576950073f));
  q = hn::MulAdd(z, q, c(1.0f));
  return clamp(hn::Div(hn::Mul(x, p), q), -1.0f, 1.0f);
}

struct SinCos {
  FloatVec sin, cos;
};

// sin and cos of pi*t for |t| <= 1, within 2e-7. The angle is folded to m = min(|t|, 1 - |t|) <= 1/2; half of it lies
// in [0, pi/4], where two short polynomials hold, and the double-angle formulas do the rest. Without the folding their
// errors would triple near t = 1.
HWY_INLINE SinCos sincos_half_turns(FloatVec t) {
  const Floats d;
  const auto k = [&](float value) HWY_ATTR { return hn::Set(d, value); };
  const auto far = hn::Abs(t);
  const auto m = hn::Min(far, hn::Sub(k(1.0f), far));
  const auto z = hn::Mul(m, m);
  auto s = hn::MulAdd(z, k(-0.0045560323633253574f), k(0.0796605572104454f));
  s = hn::MulAdd(z, s, k(-0.6459611058235168f));
  s = hn::MulAdd(z, s, k(1.570796251296997f));
  s = hn::Mul(s, m);
  auto c = hn::MulAdd(z, k(0.0008935543592087924f), k(-0.0208552498370409f));
  c = hn::MulAdd(z, c, k(0.25366851687431335f));
  c = hn::MulAdd(z, c, k(-1.2337005138397217f));
  c = hn::MulAdd(z, c, k(1.0f));
  const auto twice = hn::Add(s, s);
  return {hn::CopySignToAbs(hn::Mul(twice, c), t),
          hn::CopySignToAbs(hn::NegMulAdd(twice, s, k(1.0f)), hn::Sub(k(0.5f), far))};
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
