// Rotary position embedding of query and key heads, optionally after an RMSNorm of each head (QK norm).
#pragma once
#include <cstdint>

namespace pmnet::kernels {

struct RotaryShape {
  int64_t tokens, heads, width;
};

// x, y [tokens, heads, width]: RMSNorm per head with weight [width] (null: no norm), then the half-split rotation
// (left, right) -> (left cos - right sin, right cos + left sin). cos, sin [tokens, width/2]; inverse_rms [tokens,
// heads] is written for the backward pass, unused without weight.
void rotary(const RotaryShape& shape, const float* x, const float* weight, const float* cos, const float* sin,
            float eps, float* y, float* inverse_rms);

// x may be null: it is then recomputed from y by the inverse rotation and a division by the weight, so training need
// not keep it. That loses digits if a weight is near zero; the caller decides. Without weight neither x nor y is read.
// grad_x is written, grad_weight added to.
void rotary_backward(const RotaryShape& shape, const float* x, const float* y, const float* weight, const float* cos,
                     const float* sin, const float* inverse_rms, const float* grad_y, float* grad_x,
                     float* grad_weight);

}  // namespace pmnet::kernels
