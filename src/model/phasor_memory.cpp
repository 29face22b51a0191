#include "model/phasor_memory.h"

#include <ATen/ATen.h>

#include <numbers>

namespace pmnet {

namespace {

Linear make_proj_k_anchor(const PmnetConfig& c, int64_t heads, const at::TensorOptions& options) {
  return c.memory_keys == MemoryKeys::kBoth
             ? Linear(2 * c.memory_size, heads * c.memory_size, /*with_bias=*/false, options)
             : Linear();
}

// Rows [W_k, W_anchor] where keys have both features: W_k Phi(path + E) + W_anchor Phi(E) in one product.
Tensor key_weight(const Tensor& w_k, const Linear& proj_k_anchor) {
  return proj_k_anchor.weight.defined() ? at::cat({w_k, proj_k_anchor.weight}, 1) : w_k;
}

}  // namespace

Tensor key_features(MemoryKeys keys, const MemoryPath& path, const Tensor& anchors, bool unconstrained) {
  const auto features = [&](const ops::Phases& phases) {
    return ops::circle_features(phases, anchors, path.group, unconstrained);
  };
  if (keys == MemoryKeys::kAnchor) return features({});
  const Tensor state = features(path.phases);
  return keys == MemoryKeys::kBoth ? at::cat({state, features({})}, -1) : state;
}

Tensor value_features(MemoryValues values, const MemoryPath& path, const Tensor& anchors, bool unconstrained) {
  const bool bare = values == MemoryValues::kBare;
  return ops::circle_features(path.phases, bare ? at::zeros_like(anchors.narrow(0, 0, 1)) : anchors,
                              bare ? at::zeros_like(path.group) : path.group, unconstrained);
}

MemoryWrite::MemoryWrite(const PmnetConfig& c, const at::TensorOptions& options)
    : keys(c.memory_keys),
      tree(c.memory_tree),
      norm(c.hidden_size, c.rms_norm_eps, options),
      proj_q(c.hidden_size, c.memory_size, /*with_bias=*/true, options),
      proj_k(2 * c.memory_size, c.memory_size, /*with_bias=*/true, options),
      proj_v(c.hidden_size, c.memory_size, /*with_bias=*/true, options),
      proj_out(c.memory_size, c.memory_size, /*with_bias=*/true, options),
      proj_k_anchor(make_proj_k_anchor(c, /*heads=*/1, options)) {}

// Differs from the paper: Eq. 2 reads M_t of the active group, which would make routing sequential in time. Like the
// authors' code we read the states of the levels above (`path`) instead, so every token routes in parallel.
WriteOutcome MemoryWrite::forward(const Tensor& hidden, const MemoryPath& path, const Tensor& anchors,
                                  const ops::Phases& memory, const WriteSettings& settings) const {
  const int64_t B = hidden.size(0), T = hidden.size(1);
  const auto projected = project(hidden, norm, {&proj_q, &proj_v});
  // Above the root there is no path: its keys are the same for every token, computed once, and tie exactly.
  const Tensor where = path.phases.defined() ? path.group : at::zeros({1, 1}, path.group.options());
  const Tensor features = key_features(keys, {path.phases, where}, anchors, settings.unconstrained);  // Eq. 2
  const Tensor w_k = key_weight(proj_k.weight, proj_k_anchor);
  const Tensor a =
      ops::phase_attention(projected[0], features, w_k, proj_k.bias, /*num_heads=*/1).squeeze(2);  // Eq. 1-3
  const Tensor m = std::numbers::pi * proj_out(projected[1]).tanh();                               // Eq. 5
  const Tensor next = settings.next_group ? *settings.next_group
                      : tree              ? child_group(path.group, a.detach())  // Eq. 4
                                          : path.group;

  if (settings.balance > 0 && a.requires_grad())
    balance_routes(a, path.group, next, settings.num_groups, settings.balance);
  const Tensor update = settings.gate ? m * *settings.gate : m;

  ops::SegmentedScanResult written;
  if (settings.recurrence) {
    written = ops::segmented_scan(a, update, path.group, settings.num_groups, path.phases, memory, settings.grad_scale,
                                  settings.unconstrained);  // Eq. 6
  } else {
    // No recurrence: every token is a separate sequence, and nothing is kept.
    const auto alone = [&](const Tensor& x) { return x.flatten(0, 1).unsqueeze(1); };
    const auto alone_if_any = [&](const ops::OptTensor& x) { return x ? ops::OptTensor(alone(*x)) : std::nullopt; };
    written = ops::segmented_scan(alone(a), alone(update), alone(path.group).squeeze(-1).clamp_max(0).view({B * T, 1}),
                                  /*num_groups=*/1, {alone_if_any(path.phases.turns), alone_if_any(path.phases.angle)},
                                  {}, std::nullopt, settings.unconstrained);
    for (auto* x : {&written.path.turns, &written.path.angle})
      if (*x) *x = (*x)->squeeze(1).unflatten(0, {B, T});
    written.final_state = {};
  }
  return {.path = {written.path, path.group}, .next_group = next, .weights = a, .memory = written.final_state};
}

void MemoryWrite::visit(const std::string& prefix, const ParameterVisitor& visitor) {
  norm.visit(prefix + ".norm", visitor);
  proj_q.visit(prefix + ".proj_q", visitor);
  proj_k.visit(prefix + ".proj_k", visitor);
  proj_v.visit(prefix + ".proj_v", visitor);
  proj_out.visit(prefix + ".proj_out", visitor);
  if (proj_k_anchor.weight.defined()) proj_k_anchor.visit(prefix + ".proj_k_anchor", visitor);
}

MemoryRead::MemoryRead(const PmnetConfig& c, const at::TensorOptions& options)
    : num_heads(c.num_read_heads),
      norm(c.hidden_size, c.rms_norm_eps, options),
      proj_q(c.hidden_size, c.num_read_heads * c.memory_size, /*with_bias=*/true, options),
      proj_kv(2 * c.memory_size, 2 * c.num_read_heads * c.memory_size, /*with_bias=*/true, options),
      proj_out(c.num_read_heads * c.memory_size, c.hidden_size, /*with_bias=*/true, options),
      proj_k_anchor(make_proj_k_anchor(c, num_heads, options)) {}

Tensor MemoryRead::forward(const Tensor& hidden, const Tensor& key_features, const Tensor& value_features,
                           Tensor* weights) const {
  // proj_kv holds the rows of the keys, then those of the values.
  const auto w = proj_kv.weight.chunk(2), b = proj_kv.bias.chunk(2);
  const Tensor query = project(hidden, norm, {&proj_q})[0];
  const Tensor a =
      ops::phase_attention(query, key_features, key_weight(w[0], proj_k_anchor), b[0], num_heads);  // Eq. 7
  if (weights != nullptr) *weights = a.detach();
  return proj_out(ops::phase_values(a, value_features, w[1], b[1]));  // Eq. 8
}

void MemoryRead::visit(const std::string& prefix, const ParameterVisitor& visitor) {
  norm.visit(prefix + ".norm", visitor);
  proj_q.visit(prefix + ".proj_q", visitor);
  proj_kv.visit(prefix + ".proj_kv", visitor);
  proj_out.visit(prefix + ".proj_out", visitor);
  if (proj_k_anchor.weight.defined()) proj_k_anchor.visit(prefix + ".proj_k_anchor", visitor);
}

Tensor child_group(const Tensor& group, const Tensor& weights) {
  return at::where(group >= 0, group * weights.size(-1) + weights.argmax(-1), group);
}

Tensor straight_through_gate(const Tensor& weights, const Tensor& group, const Tensor& next_group) {
  const Tensor slot = (next_group - group * weights.size(-1)).clamp_min(0).unsqueeze(-1);
  const Tensor chosen = weights.gather(-1, slot);
  return 1 + (chosen - chosen.detach());
}

void balance_routes(const Tensor& weights, const Tensor& group, const Tensor& next_group, int64_t num_groups,
                    double weight) {
  const int64_t N = weights.size(-1);
  const Tensor went = count_writes(next_group, num_groups * N).sum(0).view({num_groups, N});
  const Tensor share = went / went.sum(-1, /*keepdim=*/true).clamp_min(1);
  const Tensor of_tokens = at::embedding(share, group.clamp_min(0)) * (group >= 0).unsqueeze(-1);  // [B,T,N]
  weights.register_hook([added = weight * static_cast<double>(N) * of_tokens](const Tensor& gradient) {
    return gradient + added.to(gradient.scalar_type());
  });
}

Tensor count_writes(const Tensor& group, int64_t num_groups) {
  return at::zeros({group.size(0), num_groups}, group.options().dtype(at::kFloat))
      .scatter_add_(1, group.clamp_min(0), (group >= 0).to(at::kFloat));
}

}  // namespace pmnet
