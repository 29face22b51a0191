// Mamba's causal convolution of each channel over the last K steps, followed by silu:
// y_t = silu(bias + sum_k weight_k x_{t-K+1+k}). Each call handles one row of the batch and channels [begin, end).
#pragma once
#include <cstdint>

namespace pmnet::kernels {

struct ConvShape {
  int64_t num_steps;     // T
  int64_t num_channels;  // E
  int64_t kernel;        // K
  int64_t input_stride;  // floats from x_t to x_{t+1}
  int64_t begin, end;    // channels of this call
};

// One row: x [T,E] in steps of input_stride, past [K-1,E] (what came before x, oldest first); and the weights
// weight [K,E], bias [E] (null: none).
struct ConvInputs {
  const float *x, *past, *weight, *bias;
};

// x [T,E], the rest as above. weight and bias receive the contribution of this row; bias may be null.
struct ConvGradients {
  float *x, *past, *weight, *bias;
};

void causal_conv(const ConvShape& shape, const ConvInputs& in, float* y);
void causal_conv_backward(const ConvShape& shape, const ConvInputs& in, const float* grad_y,
                          const ConvGradients& grads);

}  // namespace pmnet::kernels
