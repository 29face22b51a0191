// Phases as exact turns: the features Phi of a path, and the segmented scan that writes the memory.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

// round(radians * 2^64 / 2 pi) mod 2^64.
void radians_to_turns(int64_t count, const float* radians, int64_t* turns);

// features [tokens,N,2M] = [sin, cos] of the turns path[t] + anchors[group[t]]; path [tokens,N,M] (null: zero),
// anchors [G,N,M]. A negative group reads anchor 0.
void circle_features(int64_t tokens, int64_t num_slots, int64_t size, const int32_t* path, const int32_t* anchors,
                     const int64_t* group, float* features);

// grad_angle [tokens,N,M] = grad_sin cos - grad_cos sin.
void circle_features_backward(int64_t rows, int64_t size, const float* features, const float* grad_features,
                              float* grad_angle);

// sums[group[t]] += rows[t] for the columns [begin, end) of rows [tokens,width]; sums [G,width].
void sum_by_group(int64_t tokens, int64_t width, int64_t begin, int64_t end, const float* rows, const int64_t* group,
                  double* sums);

// One row (sequence) and a slab of channels [begin, end) of the memory of one level.
struct PhasorScanShape {
  int64_t num_tokens;  // T
  int64_t num_slots;   // N
  int64_t size;        // M
  int64_t begin, end;  // channels
};

// state[group] += turns(weights[t,n] * update[t,j]) for t = 0, 1, ...; path_out[t] = path_in[t] + state[group] >> 32.
// weights [T,N], update [T,M], group [T] (negative: nothing is written), path_in (null: zero) and path_out [T,N,M],
// state [G,N,M]: holds the memory before the first token on entry and after the last on return.
void phasor_scan(const PhasorScanShape& shape, const float* weights, const float* update, const int64_t* group,
                 const int32_t* path_in, int64_t* state, int32_t* path_out);

// The reverse: grad_path [T,N,M] and grad_state [G,N,M] in double (on entry the gradient of the final state, on return
// that of the initial one) -> grad_update [T,M] (this slab) and grad_weights [T,N] (this slab's part of the sum over
// channels). grad_scale [G] multiplies the gradient of each increment (null: 1).
void phasor_scan_backward(const PhasorScanShape& shape, const float* weights, const float* update, const int64_t* group,
                          const float* grad_path, const float* grad_scale, double* grad_state, float* grad_update,
                          float* grad_weights);

}  // namespace pmnet::kernels
