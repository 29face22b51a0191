// RMSNorm of rows.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

// y = weight * (x * r) with r = 1 / sqrt(mean(x^2) + eps) per row. x, y [rows, width]; r goes to inverse_rms [rows],
// which the backward pass needs.
void rms_norm(int64_t rows, int64_t width, const float* x, const float* weight, float eps, float* y,
              float* inverse_rms);

// grad_x is written; grad_weight [width] is added to, so that a caller can sum over ranges of rows.
void rms_norm_backward(int64_t rows, int64_t width, const float* x, const float* weight, const float* inverse_rms,
                       const float* grad_y, float* grad_x, float* grad_weight);

}  // namespace pmnet::kernels
