// Softmax of a row, compiled once per instruction set (Highway's per-target include).
#if defined(PMNET_KERNELS_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_SOFTMAX_INL_H_
#undef PMNET_KERNELS_SOFTMAX_INL_H_
#else
#define PMNET_KERNELS_SOFTMAX_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// x = softmax(scale * x) in place. Returns the logarithm of the sum of exp(scale * x).
inline float softmax_row(int64_t count, float scale, float* x) {
  const Floats d;
  const float top = *std::max_element(x, x + count) * scale;
  auto total = hn::Zero(d);
  for_each_vector(count, [&](size_t j, auto io) HWY_ATTR {
    const auto e = hn::Exp(d, hn::MulSub(io.load(x + j), hn::Set(d, scale), hn::Set(d, top)));
    io.store(e, x + j);
    total = hn::Add(total, io.only_active(e));
  });
  const float sum = sum_lanes(total);
  const auto inverse = hn::Set(d, 1.0f / sum);
  for_each_vector(count, [&](size_t j, auto io) HWY_ATTR { io.store(hn::Mul(io.load(x + j), inverse), x + j); });
  return std::log(sum) + top;
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
