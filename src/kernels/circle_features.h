// Eq. 2, left: the features Phi = [sin, cos] of a phase, from exact turns.
#pragma once
#include <cstdint>

#include "kernels/turns.h"

namespace pmnet::kernels {

// features [tokens, N, 2M] = [sin, cos] of path[t] + anchors[group[t]], both as 32-bit turns: the sum wraps by itself
// and needs no range reduction. path [tokens, N, M] and anchors [G, N, M] (null: zero). A negative group (padding)
// reads anchor 0.
void circle_features(int64_t tokens, int64_t num_slots, int64_t size, const int32_t* path, const int32_t* anchors,
                     const int64_t* group, float* features);

// grad_angle [rows, M] = grad_sin cos - grad_cos sin, in radians. features, grad_features [rows, 2M].
void circle_features_backward(int64_t rows, int64_t size, const float* features, const float* grad_features,
                              float* grad_angle);

// sums[group[t]] += rows[t] for the columns [begin, end) of rows [tokens, width]; sums [G, width]. The gradient of the
// anchors; columns are divided among threads, so the order of each sum is that of the tokens.
void sum_by_group(int64_t tokens, int64_t width, int64_t begin, int64_t end, const float* rows, const int64_t* group,
                  double* sums);

}  // namespace pmnet::kernels
