// RMSNorm of all rows of a float32 tensor on all threads, for the ops that contain one.
#pragma once
#include "ops/common.h"

namespace pmnet::ops {

struct RmsNormRows {
  Tensor y;            // like x
  Tensor inverse_rms;  // [rows], for the backward pass
};

// x [..., width] and weight [width], contiguous.
RmsNormRows rms_norm_rows(const Tensor& x, const Tensor& weight, double eps);

struct RmsNormGradients {
  Tensor x, weight;
};

RmsNormGradients rms_norm_rows_backward(const Tensor& x, const Tensor& weight, const Tensor& inverse_rms,
                                        const Tensor& grad_y);

void check_rms_norm(const char* op, const Tensor& x, const Tensor& weight);

Tensor rms_norm_reference(const Tensor& x, const Tensor& weight, double eps);

}  // namespace pmnet::ops
