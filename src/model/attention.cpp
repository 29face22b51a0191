#include "model/attention.h"

#include <ATen/ATen.h>

namespace pmnet {

namespace {

// The last `count` tokens of each row of x [B,S,...] that are not padding: rows end at ends[b]. A copy where it is a
// part, so that a kept state does not hold on to the whole chunk.
Tensor last_tokens(const Tensor& x, int64_t count, const std::optional<Tensor>& ends) {
  if (!ends) return count == x.size(1) ? x : x.narrow(1, x.size(1) - count, count).clone();
  const Tensor offsets = at::arange(-count, 0, ends->options());
  const Tensor index = (ends->unsqueeze(1) + offsets).clamp_min(0).view({x.size(0), count, 1, 1});
  return x.gather(1, index.expand({x.size(0), count, x.size(2), x.size(3)}));
}

}  // namespace

Attention::Attention(const AttentionShape& s, const at::TensorOptions& options)
    : shape(s),
      q_proj(s.width, s.num_heads * s.head_dim, s.bias, options),
      k_proj(s.width, s.num_kv_heads * s.head_dim, s.bias, options),
      v_proj(s.width, s.num_kv_heads * s.head_dim, s.bias, options),
      o_proj(s.num_heads * s.head_dim, s.width, s.bias, options) {
  if (s.norm_heads) {
    q_norm = RmsNorm(s.head_dim, s.norm_eps, options);
    k_norm = RmsNorm(s.head_dim, s.norm_eps, options);
  }
}

Tensor Attention::forward(const Tensor& x, const RmsNorm& norm, int64_t layer, const AttentionPass& pass,
                          AttentionState* past) const {
  const int64_t B = x.size(0), T = x.size(1);
  const auto heads = [&](const Tensor& y) { return y.view({B, T, y.size(-1) / shape.head_dim, shape.head_dim}); };
  const auto rotate = [&](const Tensor& y, const RmsNorm& head_norm) {
    const ops::OptTensor weight = shape.norm_heads ? ops::OptTensor(head_norm.weight) : std::nullopt;
    return ops::rotary(heads(y), weight, pass.rotary.cos, pass.rotary.sin, shape.norm_eps);
  };
  const auto projected = project(x, norm, {&q_proj, &k_proj, &v_proj});
  const Tensor q = rotate(projected[0], q_norm);  // [B,T,A,Dh]
  Tensor k = rotate(projected[1], k_norm);        // [B,T,A_kv,Dh]
  Tensor v = heads(projected[2]);

  const double scale = 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
  ops::OptTensor first_key;
  if (past != nullptr) {
    const int64_t kept = past->keys.size(1);
    first_key = (kept - pass.positions).clamp_min(0);  // a young stream has fewer keys than places
    k = at::cat({past->keys, k}, 1);
    v = at::cat({past->values, v}, 1);
    const int64_t keep = shape.window > 0 ? std::min(shape.window - 1, kept + T) : kept + T;
    const auto ends = pass.options.lengths ? std::optional(*pass.options.lengths + kept) : std::nullopt;
    *past = {last_tokens(k, keep, ends), last_tokens(v, keep, ends)};
  }

  ops::AttentionDropout dropout;
  if (pass.options.training && shape.dropout > 0)
    dropout = {shape.dropout, dropout_row_keys(pass.options.dropout, B, layer), pass.positions};
  return o_proj(ops::window_attention(q, k, v, first_key, shape.window, scale, dropout).flatten(2));
}

void Attention::visit(const std::string& prefix, const ParameterVisitor& visitor) {
  q_proj.visit(prefix + ".q_proj", visitor);
  k_proj.visit(prefix + ".k_proj", visitor);
  v_proj.visit(prefix + ".v_proj", visitor);
  o_proj.visit(prefix + ".o_proj", visitor);
  if (!shape.norm_heads) return;
  q_norm.visit(prefix + ".q_norm", visitor);
  k_norm.visit(prefix + ".k_norm", visitor);
}

AttentionState Attention::initial_state(int64_t batch, const at::TensorOptions& options) const {
  const Tensor empty = at::empty({batch, 0, shape.num_kv_heads, shape.head_dim}, options);
  return {empty, empty};
}

}  // namespace pmnet
