// Row-wise pieces of a decoder layer: RMSNorm, rotary rotation, SwiGLU, and the loss on the byte vocabulary.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

// y = weight * x * r, r = 1 / sqrt(mean(x^2) + eps) per row; r goes to inverse_rms [rows].
void rms_norm(int64_t rows, int64_t width, const float* x, const float* weight, float eps, float* y,
              float* inverse_rms);
// grad_weight [width] is added to.
void rms_norm_backward(int64_t rows, int64_t width, const float* x, const float* weight, const float* inverse_rms,
                       const float* grad_y, float* grad_x, float* grad_weight);

// x [tokens,heads,width]: RMSNorm per head (weight null: none), then the half-split rotation by cos, sin
// [tokens,width/2]. inverse_rms [tokens,heads], unused without weight.
struct RotateShape {
  int64_t tokens, heads, width;
};
void norm_rotate(const RotateShape& shape, const float* x, const float* weight, const float* cos, const float* sin,
                 float eps, float* y, float* inverse_rms);
// x may be null: it is then found again from y, which no weight near zero allows. Without weight neither is read.
void norm_rotate_backward(const RotateShape& shape, const float* x, const float* y, const float* weight,
                          const float* cos, const float* sin, const float* inverse_rms, const float* grad_y,
                          float* grad_x, float* grad_weight);

// y = silu(gate) * up.
void swiglu(int64_t count, const float* gate, const float* up, float* y);
void swiglu_backward(int64_t count, const float* gate, const float* up, const float* grad_y, float* grad_gate,
                     float* grad_up);

// Turns each row of logits [rows,vocab] into softmax - onehot(target), the gradient of the loss, and puts
// -log softmax[target] in loss. A negative target gives a zero row and a zero loss.
void byte_loss_rows(int64_t rows, int64_t vocab, float* logits, const int64_t* targets, float* loss);

}  // namespace pmnet::kernels
