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

// Pointers to the K inputs of step t, oldest first; inputs of negative steps come from `past`.
void FindInputs(const ConvShape& s, const ConvInputs& in, int64_t t, std::vector<const float*>& found) {
  for (int64_t k = 0; k < s.kernel; ++k) {
    const int64_t step = t - s.kernel + 1 + k;
    found[k] = step < 0 ? in.past + (step + s.kernel - 1) * s.num_channels : in.x + step * s.input_stride;
  }
}

// The sum before silu, for one vector of channels.
template <class Io>
HWY_INLINE FloatVec Convolve(const ConvShape& s, const ConvInputs& in, const std::vector<const float*>& inputs,
                             int64_t channel, Io io) {
  auto sum = in.bias ? io.load(in.bias + channel) : hn::Zero(Floats());
  for (int64_t k = 0; k < s.kernel; ++k)
    sum = hn::MulAdd(io.load(in.weight + k * s.num_channels + channel), io.load(inputs[k] + channel), sum);
  return sum;
}

void CausalConv(const ConvShape& s, const ConvInputs& in, float* y) {
  std::vector<const float*> inputs(s.kernel);
  for (int64_t t = 0; t < s.num_steps; ++t) {
    FindInputs(s, in, t, inputs);
    for_each_vector(s.end - s.begin, [&](size_t i, auto io) HWY_ATTR {
      const int64_t channel = s.begin + i;
      io.store(silu_and_slope(Convolve(s, in, inputs, channel, io)).value, y + t * s.num_channels + channel);
    });
  }
}

// Goes back in time. The gradient of x_t needs the gradients of the sums at t .. t+K-1, which a ring buffer of K rows
// holds. Steps before 0 are the gradient of `past`.
void CausalConvBackward(const ConvShape& s, const ConvInputs& in, const float* grad_y, const ConvGradients& grads) {
  const Floats f;
  const int64_t K = s.kernel, E = s.num_channels, lanes = hn::Lanes(f);
  const int64_t channels = s.end - s.begin, width = (channels + lanes - 1) / lanes * lanes;
  std::vector<float> scratch((2 * K + 1) * width);  // zeros
  float *ring = scratch.data(), *grad_weight = ring + K * width, *grad_bias = grad_weight + K * width;
  std::vector<const float*> inputs(K);
  std::vector<float*> grad_sums(K);  // of the sums that saw x_t: the first at t+K-1, the last at t
  const auto add_to = [&](float* to, FloatVec x) HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(f, to), x), f, to); };
  for (int64_t t = s.num_steps - 1; t > -K; --t) {
    if (t >= 0) FindInputs(s, in, t, inputs);
    for (int64_t k = 0; k < K; ++k) grad_sums[k] = ring + (t + 2 * K - 1 - k) % K * width;
    float* grad_x = (t < 0 ? grads.past + (t + K - 1) * E : grads.x + t * E) + s.begin;
    for_each_vector(channels, [&](size_t i, auto io) HWY_ATTR {
      const int64_t channel = s.begin + i;
      auto grad_sum = hn::Zero(f);
      if (t >= 0) {
        const auto slope = silu_and_slope(Convolve(s, in, inputs, channel, io)).slope;
        grad_sum = hn::Mul(io.load(grad_y + t * E + channel), slope);
        add_to(grad_bias + i, grad_sum);
        for (int64_t k = 0; k < K; ++k)
          add_to(grad_weight + k * width + i, hn::Mul(grad_sum, io.load(inputs[k] + channel)));
      }
      hn::StoreU(grad_sum, f, grad_sums[K - 1] + i);
      auto sum = hn::Zero(f);
      for (int64_t k = 0; k < K; ++k)
        sum = hn::MulAdd(io.load(in.weight + k * E + channel), hn::LoadU(f, grad_sums[k] + i), sum);
      io.store(sum, grad_x + i);
    });
  }
  for (int64_t k = 0; k < K; ++k) std::copy_n(grad_weight + k * width, channels, grads.weight + k * E + s.begin);
  if (grads.bias) std::copy_n(grad_bias, channels, grads.bias + s.begin);
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
