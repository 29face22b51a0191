// RMSNorm of one row, shared by rms_norm and rotary, compiled once per instruction set (Highway's per-target include).
#if defined(PMNET_KERNELS_RMS_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_RMS_NORM_INL_H_
#undef PMNET_KERNELS_RMS_NORM_INL_H_
#else
#define PMNET_KERNELS_RMS_NORM_INL_H_
#endif

#include <cmath>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// y = weight * (x * r); returns r = 1 / sqrt(mean(x^2) + eps).
HWY_INLINE float RmsNormRow(int64_t width, const float* x, const float* weight, float eps, float* y) {
  auto squares = hn::Zero(Floats());
  for_each_vector(width, [&](size_t j, auto io) HWY_ATTR {
    const auto v = io.load(x + j);
    squares = hn::MulAdd(v, v, squares);
  });
  const float inverse_rms = 1.0f / std::sqrt(sum_lanes(squares) / width + eps);
  const auto r = hn::Set(Floats(), inverse_rms);
  for_each_vector(width, [&](size_t j, auto io)
                             HWY_ATTR { io.store(hn::Mul(io.load(weight + j), hn::Mul(io.load(x + j), r)), y + j); });
  return inverse_rms;
}

// With g the gradient of y and w the weight: grad_x = r (w g - x r^2 mean(w g x)), grad_weight += g x r. The second
// term of grad_x removes the component along x, since y does not depend on the length of x.
HWY_INLINE void RmsNormRowBackward(int64_t width, const float* x, const float* weight, float inverse_rms,
                                   const float* grad_y, float* grad_x, float* grad_weight) {
  const Floats d;
  auto dot = hn::Zero(d);
  for_each_vector(width, [&](size_t j, auto io) HWY_ATTR {
    dot = hn::MulAdd(hn::Mul(io.load(weight + j), io.load(grad_y + j)), io.load(x + j), dot);
  });
  const auto r = hn::Set(d, inverse_rms);
  const auto projection = hn::Set(d, sum_lanes(dot) / width * inverse_rms * inverse_rms);
  for_each_vector(width, [&](size_t j, auto io) HWY_ATTR {
    const auto v = io.load(x + j), g = io.load(grad_y + j);
    io.store(hn::MulAdd(hn::Mul(g, v), r, io.load(grad_weight + j)), grad_weight + j);
    io.store(hn::Mul(r, hn::NegMulAdd(v, projection, hn::Mul(io.load(weight + j), g))), grad_x + j);
  });
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
