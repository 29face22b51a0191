// Sigmoid and silu on vectors, compiled once per instruction set.
#if defined(PMNET_KERNELS_ACTIVATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_ACTIVATIONS_INL_H_
#undef PMNET_KERNELS_ACTIVATIONS_INL_H_
#else
#define PMNET_KERNELS_ACTIVATIONS_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// 1 / (1 + exp(-x)). hn::Exp is defined up to 104, where it is already infinite; beyond 177 its exponent would wrap
// around and sigmoid(-200) would be 1 instead of 0.
HWY_INLINE FloatVec sigmoid(FloatVec x) {
  const Floats d;
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Min(hn::Set(d, 104.0f), hn::Neg(x)))));
}

struct Silu {
  FloatVec value, slope;
};

// silu(x) = x s with s = sigmoid(x), and its derivative s (1 + x (1 - s)).
HWY_INLINE Silu silu_and_slope(FloatVec x) {
  const auto one = hn::Set(Floats(), 1.0f);
  const auto s = sigmoid(x);
  return {hn::Mul(x, s), hn::Mul(s, hn::MulAdd(x, hn::Sub(one, s), one))};
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
