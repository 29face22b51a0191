// Mamba's selective state space: h_t = exp(delta_t A) h_{t-1} + delta_t B_t u_t, y_t = (C_t h_t + D u_t) silu(z_t).
// Each call handles one row of the batch and a slab of its channels, [begin, end). Slabs share no sums, so results do
// not depend on how slabs are assigned to threads.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

struct ScanShape {
  int64_t num_steps;     // T
  int64_t num_channels;  // E
  int64_t state_size;    // S
  int64_t gate_stride;   // floats from z_t to z_{t+1}
  int64_t begin, end;
};

// One row: u, delta [T,E], z [T,E] in steps of gate_stride, b, c [T,S]; and the weights a [E,S], d [E].
struct ScanInputs {
  const float *u, *delta, *a, *b, *c, *d, *z;
};

// The same shapes. b and c receive the contribution of this slab, a and d that of this row; the caller adds them up.
struct ScanGradients {
  float *u, *delta, *a, *b, *c, *d, *z;
};

// Training keeps h before every kScanBlock-th step (a checkpoint); the backward pass recomputes the steps between, one
// block at a time, so that they stay in cache.
constexpr int64_t kScanBlock = 32;
constexpr int64_t num_scan_blocks(int64_t num_steps) { return (num_steps + kScanBlock - 1) / kScanBlock; }

// state [E,S] is h before the first step and becomes h after the last. kept [blocks,S,E] (null: not wanted).
void selective_scan(const ScanShape& shape, const ScanInputs& in, float* state, float* kept, float* y);

// grad_state [E,S] is the gradient of the last h and becomes that of the first.
void selective_scan_backward(const ScanShape& shape, const ScanInputs& in, const float* kept, const float* grad_y,
                             float* grad_state, const ScanGradients& grads);

}  // namespace pmnet::kernels
