// Causal attention of a sliding window, with counter-based dropout.
#include "kernels/window_attention.h"

#include <algorithm>

#include "kernels/dropout_bits.h"
#include "ops/common.h"

namespace pmnet::ops {
namespace {

Tensor logical_shift_right(const Tensor& x, int64_t bits) {
  return x.__rshift__(bits).bitwise_and((int64_t{1} << (64 - bits)) - 1);
}

// mix64 of base/hash.h on tensors.
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
                               .bitwise_xor(head * static_cast<int64_t>(kernels::kHeadMultiplier) +
                                            query * static_cast<int64_t>(kernels::kQueryMultiplier)));
  const Tensor low = row.bitwise_and(kLow), high = logical_shift_right(row, 32);
  Tensor x = (key * int64_t{kernels::kKeyMultiplier} + low).bitwise_and(kLow);
  x = (x.bitwise_xor(x.__rshift__(16)) * int64_t{kernels::kRoundMultiplier1}).bitwise_and(kLow);
  x = (x.bitwise_xor(x.__rshift__(15)).bitwise_xor(high) * int64_t{kernels::kRoundMultiplier2}).bitwise_and(kLow);
  x = x.bitwise_xor(x.__rshift__(15));
  return x >= int64_t{kernels::drop_threshold(probability)};
}

// Plain ATen, block by block of queries so that memory stays linear in T.
Tensor reference(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& first_key, int64_t window,
                 double scale, const AttentionDropout& dropout) {
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
    if (dropout.probability > 0) {
      const Tensor origin = *dropout.positions - (S - T);  // absolute position of key index 0, per row
      const Tensor keep = keep_mask(*dropout.row_keys, origin.unsqueeze(1) + query_index.view({1, -1}),
                                    origin.unsqueeze(1) + key_index.view({1, -1}), A, dropout.probability);
      p = p * keep.to(p.scalar_type()) / (1 - dropout.probability);
    }
    outputs.push_back(p.matmul(value).transpose(1, 2));  // [B,Q,A,Dh]
  }
  return outputs.empty() ? at::zeros_like(q) : at::cat(outputs, 1);
}

struct Settings {
  int64_t window;
  double scale, dropout;
  const int64_t *first_key, *row_keys, *positions;  // [B] or null
};

// Pointers and strides of one (row, query head); `query` and `key` are its offsets in q/out and k/v.
struct Head {
  kernels::AttentionHead shape;
  int64_t query, key;
};

Head head_of(const Tensor& q, const Tensor& k, const Settings& s, int64_t row, int64_t head) {
  const int64_t T = q.size(1), A = q.size(2), width = q.size(3), S = k.size(1), A_kv = k.size(2);
  const int64_t key_head = head / (A / A_kv);
  return {.shape = {.num_queries = T,
                    .num_keys = S,
                    .width = width,
                    .query_stride = A * width,
                    .key_stride = A_kv * width,
                    .window = s.window,
                    .first_key = s.first_key ? s.first_key[row] : 0,
                    .scale = static_cast<float>(s.scale),
                    .drop_threshold = kernels::drop_threshold(s.dropout),
                    .keep_scale = static_cast<float>(1 / (1 - s.dropout)),
                    .row_key = s.row_keys ? static_cast<uint64_t>(s.row_keys[row]) : 0,
                    .head = static_cast<uint64_t>(head),
                    .first_position = s.positions ? s.positions[row] : 0},
          .query = row * T * A * width + head * width,
          .key = row * S * A_kv * width + key_head * width};
}

struct WindowAttention : KernelFunction<WindowAttention> {
  static constexpr const char* kName = "window_attention";

  static Tensor forward(AutogradContext* ctx, const Tensor& q_in, const Tensor& k_in, const Tensor& v_in,
                        const OptTensor& first_key_in, int64_t window, double scale, double dropout,
                        const OptTensor& row_keys_in, const OptTensor& positions_in) {
    const Tensor q = q_in.contiguous(), k = k_in.contiguous(), v = v_in.contiguous();
    const Tensor first_key = contiguous_or_undefined(first_key_in), row_keys = contiguous_or_undefined(row_keys_in),
                 positions = contiguous_or_undefined(positions_in);
    const int64_t B = q.size(0), T = q.size(1), A = q.size(2);
    const Settings settings{
        window, scale, dropout, data_at<int64_t>(first_key), data_at<int64_t>(row_keys), data_at<int64_t>(positions)};
    Tensor out = at::empty_like(q), log_sums = at::empty({B, A, T}, q.options());
    constexpr int64_t kQueriesPerTask = 512;
    const int64_t pieces = (T + kQueriesPerTask - 1) / kQueriesPerTask;
    at::parallel_for(0, B * A * pieces, /*grain_size=*/T < 8 ? B * A : 1, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t piece = task % pieces, row = task / pieces / A, head = task / pieces % A;
        const Head h = head_of(q, k, settings, row, head);
        kernels::attend(h.shape, piece * kQueriesPerTask, std::min((piece + 1) * kQueriesPerTask, T),
                        data_at(q, h.query), data_at(k, h.key), data_at(v, h.key), mutable_data_at(out, h.query),
                        mutable_data_at(log_sums, (row * A + head) * T));
      }
    });
    ctx->save_for_backward({q, k, v, out, log_sums, first_key, row_keys, positions});
    ctx->saved_data["window"] = window;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["dropout"] = dropout;
    return out;
  }

  static variable_list gradients(AutogradContext* ctx, const variable_list& saved, variable_list grads) {
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &log_sums = saved[4];
    const Settings settings{
        ctx->saved_data["window"].toInt(), ctx->saved_data["scale"].toDouble(), ctx->saved_data["dropout"].toDouble(),
        data_at<int64_t>(saved[5]),        data_at<int64_t>(saved[6]),          data_at<int64_t>(saved[7])};
    const Tensor grad = grads[0].contiguous();
    const int64_t B = q.size(0), T = q.size(1), A = q.size(2), A_kv = k.size(2), shared = A / A_kv;
    Tensor grad_q = at::empty_like(q), grad_k = at::zeros_like(k), grad_v = at::zeros_like(v);
    // One task per key head: its gradients are sums over queries and over the query heads that share it.
    at::parallel_for(0, B * A_kv, /*grain_size=*/1, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t row = task / A_kv;
        for (int64_t head = task % A_kv * shared; head < (task % A_kv + 1) * shared; ++head) {
          const Head h = head_of(q, k, settings, row, head);
          kernels::attend_backward(h.shape, data_at(q, h.query), data_at(k, h.key), data_at(v, h.key),
                                   data_at(out, h.query), data_at(log_sums, (row * A + head) * T),
                                   data_at(grad, h.query), mutable_data_at(grad_q, h.query),
                                   mutable_data_at(grad_k, h.key), mutable_data_at(grad_v, h.key));
        }
      }
    });
    return {grad_q, grad_k, grad_v, {}, {}, {}, {}, {}, {}};
  }
};

}  // namespace

Tensor window_attention(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& first_key, int64_t window,
                        double scale, const AttentionDropout& dropout) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && k.sizes() == v.sizes() && q.size(0) == k.size(0) &&
                  q.size(3) == k.size(3) && k.size(1) >= q.size(1) && k.size(2) > 0 && q.size(2) % k.size(2) == 0,
              "window_attention: q ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes(),
              " do not fit; expected [B,T,A,D], and [B,S,A_kv,D] twice, S >= T, A a multiple of A_kv");
  TORCH_CHECK(window >= 0, "window_attention: a window of ", window, " keys; expected at least 1, or 0 for no limit");
  for (const OptTensor& x : {first_key, dropout.row_keys, dropout.positions})
    TORCH_CHECK(!x || (x->dim() == 1 && x->size(0) == q.size(0) && x->scalar_type() == at::kLong),
                "window_attention: first_key, row_keys and positions hold one int64 per row");
  if (first_key) check_indices("window_attention", "first_key", *first_key, k.size(1) - q.size(1) + 1);
  TORCH_CHECK(dropout.probability >= 0 && dropout.probability < 1, "window_attention: dropout probability ",
              dropout.probability, " is not in [0, 1)");
  TORCH_CHECK(dropout.probability == 0 || (dropout.row_keys && dropout.positions),
              "window_attention: dropout needs row_keys and positions");
  const bool fast = use_kernels(q, k, v) && has_data(first_key, at::kLong) && has_data(dropout.row_keys, at::kLong) &&
                    has_data(dropout.positions, at::kLong);
  return fast ? WindowAttention::apply(q, k, v, first_key, window, scale, dropout.probability, dropout.row_keys,
                                       dropout.positions)
              : reference(q, k, v, first_key, window, scale, dropout);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def(
      "window_attention(Tensor q, Tensor k, Tensor v, Tensor? first_key, int window, float scale, float dropout, "
      "Tensor? row_keys, Tensor? positions) -> Tensor",
      [](const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& first_key, int64_t window, double scale,
         double dropout, const OptTensor& row_keys, const OptTensor& positions) {
        return window_attention(q, k, v, first_key, window, scale, {dropout, row_keys, positions});
      });
}

}  // namespace pmnet::ops
