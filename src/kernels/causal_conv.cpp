#include "kernels/causal_conv.h"

#include <algorithm>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/causal_conv.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/activations-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// The input of step t; negative steps are in the past.
HWY_INLINE const float* InputAt(const ConvShape& s, const ConvInputs& in, int64_t t) {
  return t < 0 ? in.past + (t + s.kernel - 1) * s.num_channels : in.x + t * s.input_stride;
}

template <class Io>
HWY_INLINE FloatVec Convolve(const ConvShape& s, const ConvInputs& in, int64_t t, int64_t channel, Io io) {
  auto sum = in.bias ? io.load(in.bias + channel) : hn::Zero(Floats());
  for (int64_t k = 0; k < s.kernel; ++k)
    sum = hn::MulAdd(io.load(in.weight + k * s.num_channels + channel),
                     io.load(InputAt(s, in, t - s.kernel + 1 + k) + channel), sum);
  return sum;
}

void CausalConv(const ConvShape& s, const ConvInputs& in, float* y) {
  for (int64_t t = 0; t < s.num_steps; ++t)
    for_each_vector(s.end - s.begin, [&](size_t i, auto io) HWY_ATTR {
      const int64_t channel = s.begin + i;
      io.store(silu_and_slope(Convolve(s, in, t, channel, io)).value, y + t * s.num_channels + channel);
    });
}

// Goes back in time: the gradient of x_t needs those of the sums at t .. t+K-1, which a ring of K holds.
void CausalConvBackward(const ConvShape& s, const ConvInputs& in, const float* grad_y, const ConvGradients& grads) {
  const Floats f;
  const int64_t K = s.kernel, E = s.num_channels, lanes = hn::Lanes(f);
  std::vector<float> ring(K * lanes), grad_weight(K * lanes);
  for_each_vector(s.end - s.begin, [&](size_t i, auto io) HWY_ATTR {
    const int64_t channel = s.begin + i;
    const auto grad_sum_at = [&](int64_t t) { return ring.data() + (t + K) % K * lanes; };
    std::fill(ring.begin(), ring.end(), 0.0f);
    std::fill(grad_weight.begin(), grad_weight.end(), 0.0f);
    auto grad_bias = hn::Zero(f);
    for (int64_t t = s.num_steps - 1; t > -K; --t) {
      auto grad_sum = hn::Zero(f);
      if (t >= 0) {
        const auto slope = silu_and_slope(Convolve(s, in, t, channel, io)).slope;
        grad_sum = hn::Mul(io.load(grad_y + t * E + channel), slope);
        grad_bias = hn::Add(grad_bias, grad_sum);
        for (int64_t k = 0; k < K; ++k) {
          float* to = grad_weight.data() + k * lanes;
          hn::StoreU(hn::MulAdd(grad_sum, io.load(InputAt(s, in, t - K + 1 + k) + channel), hn::LoadU(f, to)), f, to);
        }
      }
      hn::StoreU(grad_sum, f, grad_sum_at(t));
      auto grad_x = hn::Zero(f);
      for (int64_t k = 0; k < K; ++k)
        grad_x = hn::MulAdd(io.load(in.weight + k * E + channel), hn::LoadU(f, grad_sum_at(t + K - 1 - k)), grad_x);
      io.store(grad_x, (t < 0 ? grads.past + (t + K - 1) * E : grads.x + t * E) + channel);
    }
    for (int64_t k = 0; k < K; ++k)
      io.store(hn::LoadU(f, grad_weight.data() + k * lanes), grads.weight + k * E + channel);
    if (grads.bias) io.store(grad_bias, grads.bias + channel);
  });
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(CausalConv);
HWY_EXPORT(CausalConvBackward);

void causal_conv(const ConvShape& shape, const ConvInputs& in, float* y) {
  HWY_DYNAMIC_DISPATCH(CausalConv)(shape, in, y);
}

void causal_conv_backward(const ConvShape& shape, const ConvInputs& in, const float* grad_y,
                          const ConvGradients& grads) {
  HWY_DYNAMIC_DISPATCH(CausalConvBackward)(shape, in, grad_y, grads);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
