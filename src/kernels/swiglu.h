// The gated activation of the MLP: y = silu(gate) * up, with silu(x) = x sigmoid(x).
#pragma once
#include <cstdint>

namespace pmnet::kernels {

// y may be gate or up.
void swiglu(int64_t count, const float* gate, const float* up, float* y);

void swiglu_backward(int64_t count, const float* gate, const float* up, const float* grad_y, float* grad_gate,
                     float* grad_up);

}  // namespace pmnet::kernels
