// The segmented scan that writes the memory (Eq. 5, 6, 9 and Algorithm 1): running sums over time, one per segment. A
// segment is the set of tokens of a sequence that are routed to the same group of a level of the tree.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

// One sequence and the channels [begin, end) of the memory of one level.
struct SegmentedScanShape {
  int64_t num_tokens;  // T
  int64_t num_slots;   // N
  int64_t size;        // M: channels (phases) of a slot
  int64_t begin, end;
};

// For t = 0, 1, ...: state[group] += turns(weights[t,n] update[t,j]) (Eq. 5, 6), and in the same pass the sum down the
// tree, path_out[t] = path_in[t] + (state[group] >> 32).
// weights [T,N], update [T,M] in radians, group [T] (negative: padding, writes nothing), path_in (null: zero) and
// path_out [T,N,M] as 32-bit turns, state [G,N,M] as 64-bit turns: the memory before the first token on entry, after
// the last on return.
void segmented_scan(const SegmentedScanShape& shape, const float* weights, const float* update, const int64_t* group,
                    const int32_t* path_in, int64_t* state, int32_t* path_out);

// The reverse scan. grad_path [T,N,M]; grad_state [G,N,M] in double: the gradient of the final state on entry, of the
// initial state on return. grad_update [T,M] (these channels) and grad_weights [T,N] (the contribution of these
// channels to the sum over channels) are written. grad_scale [G] multiplies the gradient of each increment: 1/sqrt(s)
// for segment-aware normalisation (Eq. 9), null for 1.
void segmented_scan_backward(const SegmentedScanShape& shape, const float* weights, const float* update,
                             const int64_t* group, const float* grad_path, const float* grad_scale, double* grad_state,
                             float* grad_update, float* grad_weights);

}  // namespace pmnet::kernels
