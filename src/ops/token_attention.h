// Attention of one new token per row to the keys that are kept, on plain pointers, for decoding.
#pragma once
#include <cstdint>

namespace pmnet::ops {

struct TokenAttention {
  int64_t rows, num_heads, heads_per_key, width;
  int64_t num_keys;          // kept in every row
  const int64_t* first_key;  // [rows]: those before it are not there
  float scale;
  const float *q, *k, *v;              // q [rows, num_heads, width]; k and v as kernels::attend_token takes them
  int64_t k_row_stride, v_row_stride;  // floats from one row to the next
  float* out;                          // as q
};

void attend_tokens(const TokenAttention& a);

}  // namespace pmnet::ops
