#include "kernels/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/swiglu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/activations-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

void SwiGlu(int64_t count, const float* gate, const float* up, float* y) {
  for_each_vector(count, [&](size_t i, auto io) HWY_ATTR {
    io.store(hn::Mul(silu_and_slope(io.load(gate + i)).value, io.load(up + i)), y + i);
  });
}

void SwiGluBackward(int64_t count, const float* gate, const float* up, const float* grad_y, float* grad_gate,
                    float* grad_up) {
  for_each_vector(count, [&](size_t i, auto io) HWY_ATTR {
    const auto dy = io.load(grad_y + i);
    const Silu g = silu_and_slope(io.load(gate + i));
    io.store(hn::Mul(hn::Mul(dy, io.load(up + i)), g.slope), grad_gate + i);
    io.store(hn::Mul(dy, g.value), grad_up + i);
  });
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(SwiGlu);
HWY_EXPORT(SwiGluBackward);

void swiglu(int64_t count, const float* gate, const float* up, float* y) {
  HWY_DYNAMIC_DISPATCH(SwiGlu)(count, gate, up, y);
}

void swiglu_backward(int64_t count, const float* gate, const float* up, const float* grad_y, float* grad_gate,
                     float* grad_up) {
  HWY_DYNAMIC_DISPATCH(SwiGluBackward)(count, gate, up, grad_y, grad_gate, grad_up);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
