#include "ops/token_attention.h"

#include <algorithm>
#include <limits>

#include "kernels/scratch.h"
#include "kernels/token_attention.h"
#include "ops/share_pieces.h"

namespace pmnet::ops {

void attend_tokens(const TokenAttention& a) {
  constexpr int64_t kLeastKeys = 16;  // of a part
  // Threads that have no row of their own share out the keys: whole keys lie next to each other, heads of keys do not.
  const int64_t parts =
      std::clamp<int64_t>(at::get_num_threads() / a.rows, 1, std::max(a.num_keys / kLeastKeys, int64_t{1}));
  const int64_t size = a.num_heads * a.width, key_stride = size / a.heads_per_key;
  thread_local kernels::Scratch<float> kept_outs, kept_log_sums;  // for their memory
  kernels::Scratch<float>&outs = kept_outs, &log_sums = kept_log_sums;
  if (parts > 1) outs.resize(a.rows * parts * size);
  log_sums.resize(a.rows * parts * a.num_heads);
  share_pieces(a.rows * parts, [&](int64_t task) {
    const int64_t row = task / parts, part = task % parts, seen = a.num_keys - a.first_key[row];
    const int64_t begin = a.first_key[row] + seen * part / parts, end = a.first_key[row] + seen * (part + 1) / parts;
    float *out = parts > 1 ? &outs[task * size] : a.out + row * size, *log_sum = &log_sums[task * a.num_heads];
    if (begin == end) {
      std::fill_n(out, size, 0.0f);
      std::fill_n(log_sum, a.num_heads, -std::numeric_limits<float>::infinity());
      return;
    }
    kernels::attend_token({.num_heads = a.num_heads,
                           .heads_per_key = a.heads_per_key,
                           .width = a.width,
                           .first_key = begin,
                           .num_keys = end,
                           .key_stride = key_stride,
                           .scale = a.scale},
                          a.q + row * size, a.k + row * a.k_row_stride, a.v + row * a.v_row_stride, out, log_sum);
  });
  if (parts == 1) return;
  for (int64_t row = 0; row < a.rows; ++row)
    kernels::join_parts(parts, a.num_heads, a.width, &outs[row * parts * size], &log_sums[row * parts * a.num_heads],
                        a.out + row * size);
}

}  // namespace pmnet::ops
