#include "kernels/window_attention.h"

#include <algorithm>

#include "kernels/dropout_bits.h"
#include "ops/common.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

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

struct WindowAttentionFunction : torch::autograd::Function<WindowAttentionFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q_in, const Tensor& k_in, const Tensor& v_in,
                        const OptTensor& first_key_in, int64_t window, double scale, double dropout,
                        const OptTensor& row_keys_in, const OptTensor& positions_in) {
    const Tensor q = q_in.contiguous(), k = k_in.contiguous(), v = v_in.contiguous();
    const auto dense = [](const OptTensor& x) { return x ? x->contiguous() : Tensor(); };
    const Tensor first_key = dense(first_key_in), row_keys = dense(row_keys_in), positions = dense(positions_in);
    const int64_t B = q.size(0), T = q.size(1), A = q.size(2);
    const Settings settings{window,
                            scale,
                            dropout,
                            data_or_null<int64_t>(first_key),
                            data_or_null<int64_t>(row_keys),
                            data_or_null<int64_t>(positions)};
    Tensor out = at::empty_like(q), log_sums = at::empty({B, A, T}, q.options());
    constexpr int64_t kQueriesPerTask = 512;
    const int64_t pieces = (T + kQueriesPerTask - 1) / kQueriesPerTask;
    at::parallel_for(0, B * A * pieces, /*grain_size=*/T < 8 ? B * A : 1, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t piece = task % pieces, row = task / pieces / A, head = task / pieces % A;
        const Head h = head_of(q, k, settings, row, head);
        kernels::attend(h.shape, piece * kQueriesPerTask, std::min((piece + 1) * kQueriesPerTask, T),
                        q.const_data_ptr<float>() + h.query, k.const_data_ptr<float>() + h.key,
                        v.const_data_ptr<float>() + h.key, out.mutable_data_ptr<float>() + h.query,
                        log_sums.mutable_data_ptr<float>() + (row * A + head) * T);
      }
    });
    ctx->save_for_backward({q, k, v, out, log_sums, first_key, row_keys, positions});
    ctx->saved_data["window"] = window;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["dropout"] = dropout;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &log_sums = saved[4];
    const Settings settings{ctx->saved_data["window"].toInt(),     ctx->saved_data["scale"].toDouble(),
                            ctx->saved_data["dropout"].toDouble(), data_or_null<int64_t>(saved[5]),
                            data_or_null<int64_t>(saved[6]),       data_or_null<int64_t>(saved[7])};
    const Tensor grad = grads[0].contiguous();
    const int64_t B = q.size(0), T = q.size(1), A = q.size(2), A_kv = k.size(2), shared = A / A_kv;
    Tensor grad_q = at::empty_like(q), grad_k = at::zeros_like(k), grad_v = at::zeros_like(v);
    // One task per key head: its gradients are sums over queries and over the query heads that share it.
    at::parallel_for(0, B * A_kv, /*grain_size=*/1, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t row = task / A_kv;
        for (int64_t head = task % A_kv * shared; head < (task % A_kv + 1) * shared; ++head) {
          const Head h = head_of(q, k, settings, row, head);
          kernels::attend_backward(h.shape, q.const_data_ptr<float>() + h.query, k.const_data_ptr<float>() + h.key,
                                   v.const_data_ptr<float>() + h.key, out.const_data_ptr<float>() + h.query,
                                   log_sums.const_data_ptr<float>() + (row * A + head) * T,
                                   grad.const_data_ptr<float>() + h.query, grad_q.mutable_data_ptr<float>() + h.query,
                                   grad_k.mutable_data_ptr<float>() + h.key, grad_v.mutable_data_ptr<float>() + h.key);
        }
      }
    });
    return {grad_q, grad_k, grad_v, {}, {}, {}, {}, {}, {}};
  }
};

Tensor window_attention_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& first_key,
                            int64_t window, double scale, double dropout, const OptTensor& row_keys,
                            const OptTensor& positions) {
  if (!fast_path(q))
    return reference::window_attention(q, k, v, first_key, window, scale, dropout, row_keys, positions);
  return WindowAttentionFunction::apply(q, k, v, first_key, window, scale, dropout, row_keys, positions);
}

}  // namespace

Tensor window_attention(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& first_key, int64_t window,
                        double scale, const AttentionDropout& dropout) {
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && k.sizes() == v.sizes() && q.size(0) == k.size(0) &&
                  q.size(3) == k.size(3) && k.size(1) >= q.size(1) && q.size(2) % std::max<int64_t>(k.size(2), 1) == 0,
              "window_attention: q ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes(),
              " do not fit; expected [B,T,A,D], and [B,S,A_kv,D] twice, S >= T, A a multiple of A_kv");
  for (const OptTensor& x : {first_key, dropout.row_keys, dropout.positions})
    TORCH_CHECK(!x || (x->dim() == 1 && x->size(0) == q.size(0) && x->scalar_type() == at::kLong),
                "window_attention: first_key, row_keys and positions hold one int64 per row");
  TORCH_CHECK(dropout.probability >= 0 && dropout.probability < 1, "window_attention: dropout probability ",
              dropout.probability, " is not in [0, 1)");
  TORCH_CHECK(dropout.probability == 0 || (dropout.row_keys && dropout.positions),
              "window_attention: dropout needs row_keys and positions");
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("pmnet::window_attention", "")
                             .typed<decltype(reference::window_attention)>();
  return op.call(q, k, v, first_key, window, scale, dropout.probability, dropout.row_keys, dropout.positions);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def(
      "window_attention(Tensor q, Tensor k, Tensor v, Tensor? first_key, int window, float scale, float dropout, "
      "Tensor? row_keys, Tensor? positions) -> Tensor");
}
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) { m.impl("window_attention", reference::window_attention); }
TORCH_LIBRARY_IMPL(pmnet, CPU, m) { m.impl("window_attention", window_attention_cpu); }
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) { m.impl("window_attention", window_attention_cpu); }

}  // namespace pmnet::ops
