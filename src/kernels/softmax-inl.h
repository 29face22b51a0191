// Softmax of a row, compiled once per instruction set (Highway's per-target include).
#if defined(PMNET_KERNELS_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_SOFTMAX_INL_H_
#undef PMNET_KERNELS_SOFTMAX_INL_H_
#else
#define PMNET_KERNELS_SOFTMAX_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <limits>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// x = softmax(scale * x) in place, scale > 0. Returns the logarithm of the sum of exp(scale * x). If any x is NaN, the
// result and all of x are NaN: hn::Exp(NaN) is 0 and Max may ignore NaN, so it is looked for explicitly.
inline float softmax_row(int64_t count, float scale, float* x) {
  const Floats d;
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto highest = lowest, not_a_number = hn::Zero(d);
  for_each_vector(count, [&](size_t j, auto io) HWY_ATTR {
    const auto v = io.load(x + j);
    highest = hn::Max(highest, io.active_or(v, lowest));
    not_a_number = hn::IfThenElse(hn::Eq(v, v), not_a_number, v);
  });
  const float top = (hn::GetLane(hn::MaxOfLanes(d, highest)) + sum_lanes(not_a_number)) * scale;
  auto total = hn::Zero(d);
  for_each_vector(count, [&](size_t j, auto io) HWY_ATTR {
    const auto e = hn::Exp(d, hn::MulSub(io.load(x + j), hn::Set(d, scale), hn::Set(d, top)));
    io.store(e, x + j);
    total = hn::Add(total, io.only_active(e));
  });
  const float sum = sum_lanes(total);
  // With a top of NaN or infinity every exponential is 0, and 0 * (1 / 0) is NaN, as softmax demands.
  const auto inverse = hn::Set(d, 1.0f / sum);
  for_each_vector(count, [&](size_t j, auto io) HWY_ATTR { io.store(hn::Mul(io.load(x + j), inverse), x + j); });
  return std::log(sum) + top;
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
