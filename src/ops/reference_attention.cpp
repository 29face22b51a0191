// Attention in plain ATen, block by block of queries so that memory stays linear in T, with the counter-based dropout.
#include <ATen/ATen.h>

#include "ops/reference.h"

namespace pmnet::ops::reference {

namespace {

Tensor logical_shift_right(const Tensor& x, int64_t bits) {
  return x.__rshift__(bits).bitwise_and((int64_t{1} << (64 - bits)) - 1);
}

Tensor mix64(Tensor x) {
  x = x.bitwise_xor(logical_shift_right(x, 30)) * static_cast<int64_t>(0xBF58476D1CE4E5B9);
  x = x.bitwise_xor(logical_shift_right(x, 27)) * static_cast<int64_t>(0x94D049BB133111EB);
  return x.bitwise_xor(logical_shift_right(x, 31));
}

// Which probabilities survive: [B,A,queries,keys], the bits of kernels/dropout_bits.h.
Tensor keep_mask(const Tensor& row_keys, const Tensor& query_positions, const Tensor& key_positions, int64_t num_heads,
                 double probability) {
  constexpr int64_t kLow = 0xFFFFFFFF;
  const Tensor head = at::arange(num_heads, row_keys.options()).view({1, -1, 1, 1});
  const Tensor query = query_positions.unsqueeze(1).unsqueeze(-1);  // [B,1,Q,1]
  const Tensor key = key_positions.unsqueeze(1).unsqueeze(1);       // [B,1,1,K]
  const Tensor row = mix64(row_keys.view({-1, 1, 1, 1})
                               .bitwise_xor(head * static_cast<int64_t>(0x9E3779B97F4A7C15) +
                                            query * static_cast<int64_t>(0xD1B54A32D192ED03)));
  const Tensor low = row.bitwise_and(kLow), high = logical_shift_right(row, 32);
  Tensor x = (key * int64_t{0x9E3779B1} + low).bitwise_and(kLow);
  x = (x.bitwise_xor(x.__rshift__(16)) * int64_t{0x21F0AAAD}).bitwise_and(kLow);
  x = (x.bitwise_xor(x.__rshift__(15)).bitwise_xor(high) * int64_t{0x735A2D97}).bitwise_and(kLow);
  x = x.bitwise_xor(x.__rshift__(15));
  return x >= static_cast<int64_t>(probability * 0x1p32);
}

}  // namespace

Tensor window_attention(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& first_key, int64_t window,
                        double scale, double dropout, const OptTensor& row_keys, const OptTensor& positions) {
  const int64_t T = q.size(1), A = q.size(2), S = k.size(1), repeats = A / k.size(2);
  constexpr int64_t kQueries = 256;
  std::vector<Tensor> outputs;
  for (int64_t begin = 0; begin < T; begin += kQueries) {
    const int64_t count = std::min(kQueries, T - begin);
    const int64_t last = S - T + begin + count;  // one past the block's last visible key
    const int64_t first = window > 0 ? std::max<int64_t>(0, S - T + begin - window + 1) : 0;
    const Tensor query = q.narrow(1, begin, count).transpose(1, 2);                                     // [B,A,Q,Dh]
    const Tensor key = k.narrow(1, first, last - first).repeat_interleave(repeats, 2).transpose(1, 2);  // [B,A,K,Dh]
    const Tensor value = v.narrow(1, first, last - first).repeat_interleave(repeats, 2).transpose(1, 2);
    const auto indices = k.options().dtype(at::kLong);
    const Tensor query_index = at::arange(S - T + begin, last, indices).unsqueeze(1);  // [Q,1]
    const Tensor key_index = at::arange(first, last, indices).unsqueeze(0);            // [1,K]
    Tensor hidden = key_index > query_index;
    if (window > 0) hidden = hidden.logical_or(key_index <= query_index - window);
    hidden = hidden.view({1, 1, count, last - first});
    if (first_key) hidden = hidden.logical_or(key_index.view({1, 1, 1, -1}) < first_key->view({-1, 1, 1, 1}));
    Tensor p = (query.matmul(key.transpose(2, 3)) * scale)
                   .masked_fill(hidden, -std::numeric_limits<double>::infinity())
                   .softmax(-1);
    if (dropout > 0) {
      const Tensor origin = *positions - (S - T);  // absolute position of key index 0, per row
      const Tensor keep = keep_mask(*row_keys, origin.unsqueeze(1) + query_index.view({1, -1}),
                                    origin.unsqueeze(1) + key_index.view({1, -1}), A, dropout);
      p = p * keep.to(p.scalar_type()) / (1 - dropout);
    }
    outputs.push_back(p.matmul(value).transpose(1, 2));  // [B,Q,A,Dh]
  }
  return outputs.empty() ? at::zeros_like(q) : at::cat(outputs, 1);
}

}  // namespace pmnet::ops::reference
