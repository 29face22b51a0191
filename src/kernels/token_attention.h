// Causal attention of one new token over the KV cache, for decoding. Bound by memory bandwidth: keys and values are
// read once, in the order they lie in memory, all heads of a key together.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

struct TokenHeads {
  int64_t num_heads;            // query heads, next to each other
  int64_t heads_per_key;        // query heads that share a key head
  int64_t width;                // Dh
  int64_t first_key, num_keys;  // keys before first_key are masked
  int64_t key_stride;           // floats from one key to the next
  float scale;
};

// q and out: [num_heads, width]; k and v: [num_keys, num_heads / heads_per_key, width]. log_sums [num_heads]: the
// logarithm of the softmax denominator.
void attend_token(const TokenHeads& heads, const float* q, const float* k, const float* v, float* out, float* log_sums);

// Combines the attention over several parts of the keys, computed by different threads, into that over all keys: parts
// [num_parts, num_heads, width] are weighted by exp(log_sums) [num_parts, num_heads]; minus infinity for an empty part.
void join_parts(int64_t num_parts, int64_t num_heads, int64_t width, const float* parts, const float* log_sums,
                float* out);

}  // namespace pmnet::kernels
