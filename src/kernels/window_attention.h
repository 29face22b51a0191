// Causal attention of one head over one sequence, in blocks of queries with online softmax: work is linear in T*w, and
// no T x T matrix is ever stored.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

struct AttentionHead {
  int64_t num_queries;               // T
  int64_t num_keys;                  // S: the last key belongs to the last query
  int64_t width;                     // Dh
  int64_t query_stride, key_stride;  // floats between tokens of q/out and of k/v
  int64_t window;                    // w; 0: unlimited
  int64_t first_key;                 // keys before it are masked
  float scale;
  // Dropout; threshold 0: off.
  uint32_t drop_threshold;
  float keep_scale;        // 1 / (1 - p)
  uint64_t row_key;        // hash of (seed, step, sample, layer)
  uint64_t head;           // query head
  int64_t first_position;  // absolute position of the first query
};

// Queries [begin, end) of the head. q, out: query_stride apart; k, v: key_stride apart. log_sums [T]: logarithms of the
// softmax denominators, for the backward pass.
void attend(const AttentionHead& head, int64_t begin, int64_t end, const float* q, const float* k, const float* v,
            float* out, float* log_sums);

// All queries. grad_q is written; grad_k and grad_v are added to, because query heads that share a key head (grouped
// queries) are processed one after the other.
void attend_backward(const AttentionHead& head, const float* q, const float* k, const float* v, const float* out,
                     const float* log_sums, const float* grad_out, float* grad_q, float* grad_k, float* grad_v);

}  // namespace pmnet::kernels
