#pragma once
#include <ATen/core/Tensor.h>

namespace pmnet {

// Rotary tables, [B|1,T,width/2]: cos and sin of position * theta^(-2i/width).
struct RotaryTable {
  at::Tensor cos, sin;
};

// Angles are formed in double and reduced before rounding, so they are as exact at position 10 million as at 10.
// positions int64 [B]: of the first token; one row suffices when all are equal.
RotaryTable rotary_table(const at::Tensor& positions, int64_t num_tokens, int64_t width, double theta,
                         at::ScalarType dtype);

}  // namespace pmnet
