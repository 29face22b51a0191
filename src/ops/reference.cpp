#include "ops/reference.h"

#include <ATen/ATen.h>

#include <numbers>

namespace pmnet::ops::reference {

using std::numbers::pi;

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return weight * x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps);
}

Tensor rotary(const Tensor& x, const OptTensor& weight, const Tensor& cos, const Tensor& sin, double eps) {
  const Tensor y = weight ? rms_norm(x, *weight, eps) : x;
  const int64_t half = x.size(-1) / 2;
  const Tensor left = y.narrow(-1, 0, half), right = y.narrow(-1, half, half);
  const Tensor c = cos.unsqueeze(2), s = sin.unsqueeze(2);  // [B|1,T,1,Dh/2]
  return at::cat({left * c - right * s, right * c + left * s}, -1);
}

Tensor swiglu(const Tensor& gate, const Tensor& up) { return at::silu(gate) * up; }

Tensor swiglu_linear(const Tensor& gate, const Tensor& up, const Tensor& weight, const OptTensor& bias) {
  return at::linear(swiglu(gate, up), weight, bias);
}

std::vector<Tensor> rms_norm_linear(const Tensor& x, const Tensor& norm_weight, double eps, at::TensorList weights,
                                    at::TensorList biases) {
  const Tensor y = rms_norm(x, norm_weight, eps);
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < weights.size(); ++i)
    outputs.push_back(at::linear(y, weights[i], biases.empty() ? OptTensor() : OptTensor(biases[i])));
  return outputs;
}

Tensor circle_features(const OptTensor& turns, const OptTensor& angle, const Tensor& anchors, const Tensor& group,
                       bool unconstrained) {
  const int64_t B = group.size(0), T = group.size(1), N = anchors.size(1), M = anchors.size(2);
  Tensor theta = anchors.index_select(0, group.clamp_min(0).reshape(-1)).view({B, T, N, M});
  if (angle) {
    theta = theta + *angle;
  } else if (turns) {
    theta = theta + to_angle(*turns, anchors.scalar_type());
  }
  if (unconstrained) return at::cat({theta, at::zeros_like(theta)}, -1);
  return at::cat({theta.sin(), theta.cos()}, -1);
}

Tensor phase_attention(const Tensor& query, const Tensor& features, const Tensor& w_k, const Tensor& b_k,
                       int64_t num_heads) {
  const int64_t B = query.size(0), T = query.size(1), R = num_heads, M = query.size(2) / R;
  const Tensor phi_q = pi * query.view({B, T, R, 1, M}).tanh();                            // Eq. 1
  const Tensor keys = at::linear(features, w_k, b_k).unflatten(-1, {R, M});                // [B,T,N,R,M]
  const Tensor phi_k = pi * keys.transpose(2, 3).tanh();                                   // Eq. 2
  return ((phi_q - phi_k).cos().sum(-1) / std::sqrt(static_cast<double>(M))).softmax(-1);  // Eq. 3
}

Tensor phase_values(const Tensor& weights, const Tensor& features, const Tensor& w_v, const Tensor& b_v) {
  const int64_t R = weights.size(2), M = w_v.size(0) / R;
  const Tensor values = at::linear(features, w_v, b_v).unflatten(-1, {R, M}).transpose(2, 3);  // [B,T,R,N,M]
  return (weights.unsqueeze(-1) * values).sum(-2).flatten(-2);                                 // Eq. 8
}

namespace {

// A tensor with the value of `value` and the gradient of `gradient`.
Tensor with_gradient_of(const Tensor& value, const Tensor& gradient) {
  return value + (gradient - gradient.detach()).to(value.scalar_type());
}

// Algorithm 1: sums over time within each segment. x [B,T,...], key [B*T] says which segment a token belongs to.
Tensor segmented_cumsum(const Tensor& x, const Tensor& key) {
  const Tensor flat = x.flatten(0, 1);
  const Tensor order = std::get<1>(key.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false));
  const Tensor sorted_key = key.index_select(0, order);
  const Tensor sums = flat.index_select(0, order).cumsum(0);
  // Where does the segment of each sorted token start? The sum before that position is what must be taken off.
  const Tensor start = at::searchsorted(sorted_key, sorted_key);
  const Tensor before = at::cat({at::zeros_like(sums.narrow(0, 0, 1)), sums}, 0).index_select(0, start);
  const Tensor inverse = std::get<1>(order.sort());
  return (sums - before).index_select(0, inverse).view_as(x);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> segmented_scan(const Tensor& weights, const Tensor& update,
                                                          const Tensor& group, int64_t num_groups,
                                                          const OptTensor& path_turns, const OptTensor& path_angle,
                                                          const OptTensor& initial_turns,
                                                          const OptTensor& initial_angle, const OptTensor& grad_scale,
                                                          bool unconstrained) {
  const int64_t B = weights.size(0), T = weights.size(1), N = weights.size(2), M = update.size(2);
  const auto dtype = weights.scalar_type();
  const Tensor written = (group >= 0);
  const Tensor safe_group = group.clamp_min(0);
  const Tensor row = at::arange(B, group.options()).unsqueeze(1);  // [B,1]
  const Tensor key = (row * num_groups + safe_group).reshape(-1);  // [B*T]
  const auto gather = [&](const Tensor& per_group) {               // [B,G,...] -> [B,T,...]
    return per_group.flatten(0, 1).index_select(0, key).unflatten(0, {B, T});
  };
  Tensor delta = weights.unsqueeze(-1) * update.unsqueeze(-2);  // [B,T,N,M]  Eq. 5
  delta = delta * written.view({B, T, 1, 1}).to(dtype);
  Tensor scaled = delta.to(at::kDouble);
  if (grad_scale) scaled = scaled * gather(*grad_scale).view({B, T, 1, 1});  // Eq. 9: only its gradient is used
  if (B * T == 0) {
    const Tensor empty = at::empty({B, T, N, M}, delta.options());
    const Tensor state = initial_angle ? *initial_angle : at::zeros({B, num_groups, N, M}, delta.options());
    const Tensor turns = initial_turns ? *initial_turns : at::zeros({B, num_groups, N, M}, group.options());
    return {empty.to(at::kInt), empty, turns, state};
  }

  // The differentiable twins: plain sums, in double so that the oracle's gradients are better than what they judge.
  const auto differentiable = [&](const Tensor& addend) {
    Tensor state = segmented_cumsum(addend, key);
    Tensor final_state = at::zeros({B * num_groups, N, M}, addend.options()).index_add(0, key, addend.flatten(0, 1));
    final_state = final_state.view({B, num_groups, N, M});
    if (initial_angle) {
      state = state + gather(*initial_angle);
      final_state = final_state + *initial_angle;
    }
    state = state * written.view({B, T, 1, 1}).to(state.scalar_type());  // padding sees the path alone
    if (path_angle) state = state + *path_angle;
    return std::pair(state, final_state);
  };
  const auto [gradient_path, gradient_final] = differentiable(scaled);

  if (unconstrained || dtype == at::kDouble) {
    const auto [path, final_state] = differentiable(delta.to(at::kDouble));
    return {Tensor(), with_gradient_of(path.detach().to(dtype), gradient_path), Tensor(),
            with_gradient_of(final_state.detach().to(dtype), gradient_final)};
  }

  // The exact values: 64-bit turns wrap by themselves.                       Eq. 6
  const Tensor turns = to_turns(delta.detach());
  Tensor state = segmented_cumsum(turns, key);
  Tensor final_turns = at::zeros({B * num_groups, N, M}, turns.options()).index_add(0, key, turns.flatten(0, 1));
  final_turns = final_turns.view({B, num_groups, N, M});
  if (initial_turns) {
    state = state + gather(*initial_turns);
    final_turns = final_turns + *initial_turns;
  }
  Tensor path = state.__rshift__(32).to(at::kInt) * written.view({B, T, 1, 1}).to(at::kInt);
  if (path_turns) path = path + *path_turns;
  return {path, with_gradient_of(to_angle(path, dtype), gradient_path), final_turns,
          with_gradient_of(to_angle(final_turns, dtype), gradient_final)};
}

Tensor cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  const Tensor log_p = at::linear(hidden, weight).log_softmax(-1);
  const Tensor nll = -log_p.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1);
  return nll * (targets >= 0).to(nll.scalar_type());
}

Tensor causal_conv(const Tensor& x, const Tensor& weight, const OptTensor& bias, const OptTensor& past) {
  const int64_t B = x.size(0), T = x.size(1), E = x.size(2), K = weight.size(1);
  if (T == 0) return at::silu(x);  // no window fits
  const Tensor before = past ? *past : at::zeros({B, E, K - 1}, x.options());
  const Tensor input = at::cat({before, x.transpose(1, 2)}, 2);                                        // [B,E,K-1+T]
  const Tensor sums = (input.unfold(2, K, /*step=*/1) * weight.unsqueeze(1)).sum(-1).transpose(1, 2);  // [B,T,E]
  return at::silu(bias ? sums + *bias : sums);
}

std::tuple<Tensor, Tensor> selective_scan(const Tensor& u, const Tensor& delta, const Tensor& a, const Tensor& b,
                                          const Tensor& c, const Tensor& d, const Tensor& z, const OptTensor& initial) {
  const int64_t B = u.size(0), T = u.size(1);
  Tensor h = initial ? *initial : at::zeros({B, a.size(0), a.size(1)}, u.options());
  std::vector<Tensor> outputs;
  for (int64_t t = 0; t < T; ++t) {
    const Tensor dt = delta.select(1, t).unsqueeze(-1);                                        // [B,E,1]
    h = (dt * a).exp() * h + dt * b.select(1, t).unsqueeze(1) * u.select(1, t).unsqueeze(-1);  // [B,E,S]
    outputs.push_back((h * c.select(1, t).unsqueeze(1)).sum(-1) + d * u.select(1, t));         // [B,E]
  }
  const Tensor y = outputs.empty() ? at::zeros_like(u) : at::stack(outputs, 1);
  return {y * at::silu(z), h};
}

}  // namespace pmnet::ops::reference
