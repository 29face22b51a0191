// Letters: B batch, T time, d hidden width, E inner channels, S states per channel, K steps the convolution sees.
#include "model/mamba.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

namespace pmnet {

namespace {

// [B,T]: true where a row has ended.
Tensor after_end(const Tensor& lengths, int64_t num_steps) {
  return at::arange(num_steps, lengths.options()) >= lengths.unsqueeze(1);
}

// What the convolution of the next chunk needs: the last K-1 inputs before each row's end. past [B,E,K-1], x [B,T,E].
Tensor next_past(const Tensor& past, const Tensor& x, const std::optional<Tensor>& lengths) {
  const int64_t kept = past.size(2), T = x.size(1);
  if (!lengths) {
    const int64_t recent = std::min(kept, T);
    return at::cat({past.narrow(2, recent, kept - recent), x.narrow(1, T - recent, recent).transpose(1, 2)}, 2);
  }
  const Tensor all = at::cat({past, x.transpose(1, 2)}, 2);                                          // [B,E,K-1+T]
  const Tensor index = (lengths->unsqueeze(1) + at::arange(kept, lengths->options())).unsqueeze(1);  // [B,1,K-1]
  return all.gather(2, index.expand({x.size(0), x.size(2), kept}));
}

}  // namespace

MambaMixer::MambaMixer(const MambaConfig& c, const at::TensorOptions& options)
    : A_log(at::empty({c.intermediate_size, c.state_size}, options)),
      D(at::empty({c.intermediate_size}, options)),
      conv_weight(at::empty({c.intermediate_size, 1, c.conv_kernel}, options)),
      conv_bias(c.use_conv_bias ? at::empty({c.intermediate_size}, options) : Tensor()),
      in_proj(c.hidden_size, 2 * c.intermediate_size, c.use_bias, options),
      x_proj(c.intermediate_size, c.time_step_rank + 2 * c.state_size, /*with_bias=*/false, options),
      dt_proj(c.time_step_rank, c.intermediate_size, /*with_bias=*/true, options),
      out_proj(c.intermediate_size, c.hidden_size, c.use_bias, options) {}

Tensor MambaMixer::forward(const Tensor& x, const RmsNorm& norm, SsmState* past,
                           const std::optional<Tensor>& lengths) const {
  const int64_t E = A_log.size(0), S = A_log.size(1), rank = dt_proj.weight.size(1);
  const auto halves = project(x, norm, {&in_proj})[0].split(E, -1);
  const Tensor &input = halves[0], &gate = halves[1];  // [B,T,E]
  const auto before = past ? ops::OptTensor(past->conv) : std::nullopt;
  const auto bias = conv_bias.defined() ? ops::OptTensor(conv_bias) : std::nullopt;
  const Tensor u = ops::causal_conv(input, conv_weight.squeeze(1), bias, before);  // [B,T,E]

  const auto selected = x_proj(u).split_with_sizes({rank, S, S}, -1);  // dt, B and C of each step
  Tensor delta = at::softplus(dt_proj(selected[0]));                   // [B,T,E]
  // A step of no duration leaves the state as it is.
  if (lengths) delta = delta.masked_fill(after_end(*lengths, x.size(1)).unsqueeze(-1), 0.0);
  const auto hidden = past ? ops::OptTensor(past->hidden) : std::nullopt;
  const auto scan = ops::selective_scan(u, delta, -A_log.exp(), selected[1], selected[2], D, gate, hidden);
  if (past != nullptr) *past = {next_past(past->conv, input, lengths), scan.final_state};
  return out_proj(scan.output);
}

void MambaMixer::visit(const std::string& prefix, const ParameterVisitor& visitor) {
  visitor(prefix + ".A_log", A_log);
  visitor(prefix + ".D", D);
  visitor(prefix + ".conv1d.weight", conv_weight);
  if (conv_bias.defined()) visitor(prefix + ".conv1d.bias", conv_bias);
  in_proj.visit(prefix + ".in_proj", visitor);
  x_proj.visit(prefix + ".x_proj", visitor);
  dt_proj.visit(prefix + ".dt_proj", visitor);
  out_proj.visit(prefix + ".out_proj", visitor);
}

void MambaMixer::initialize(const MambaConfig& c, uint64_t seed, const std::string& prefix) {
  at::NoGradGuard no_grad;
  A_log.copy_(at::arange(1, c.state_size + 1, A_log.options()).log().expand_as(A_log));
  D.fill_(1.0);
  const double conv_bound = 1.0 / std::sqrt(static_cast<double>(c.conv_kernel));
  fill_uniform(conv_weight, -conv_bound, conv_bound, seed, prefix + ".conv1d.weight");
  const double dt_bound = c.time_step_scale / std::sqrt(static_cast<double>(c.time_step_rank));
  fill_uniform(dt_proj.weight, -dt_bound, dt_bound, seed, prefix + ".dt_proj.weight");
  // softplus(bias) spreads log-uniformly over [time_step_min, time_step_max].
  Tensor& bias = dt_proj.bias;
  fill_uniform(bias, std::log(c.time_step_min), std::log(c.time_step_max), seed, prefix + ".dt_proj.bias");
  const Tensor dt = bias.exp().clamp_min(c.time_step_floor);
  bias.copy_(dt + (-(-dt).expm1()).log());
  const auto normal = [&](Linear& linear, const std::string& name, double std) {
    fill_normal(linear.weight, std, seed, prefix + name);
    if (linear.bias.defined()) linear.bias.zero_();
  };
  normal(in_proj, ".in_proj.weight", c.initializer_range);
  normal(x_proj, ".x_proj.weight", c.initializer_range);
  const double depth = c.rescale_prenorm_residual ? std::sqrt(static_cast<double>(c.num_layers)) : 1.0;
  normal(out_proj, ".out_proj.weight", c.initializer_range / depth);
  if (conv_bias.defined()) conv_bias.zero_();
}

SsmState MambaMixer::initial_state(int64_t batch) const {
  const auto options = A_log.options();
  const int64_t E = A_log.size(0);
  return {at::zeros({batch, E, conv_weight.size(2) - 1}, options), at::zeros({batch, E, A_log.size(1)}, options)};
}

Mamba::Mamba(const MambaConfig& config, at::ScalarType dtype) : config_(config) {
  const auto options = at::TensorOptions().dtype(dtype);
  embeddings = at::empty({config.vocab_size, config.hidden_size}, options);
  embed_ngrams = NgramEmbedding(config.max_ngram, config.ngram_rows, config.hidden_size, options);
  for (int64_t layer = 0; layer < config.num_layers; ++layer)
    layers.push_back({RmsNorm(config.hidden_size, config.layer_norm_epsilon, options), MambaMixer(config, options)});
  norm_f = RmsNorm(config.hidden_size, config.layer_norm_epsilon, options);
  if (!config.tie_word_embeddings) lm_head = at::empty({config.vocab_size, config.hidden_size}, options);
}

Tensor Mamba::hidden(const Tensor& ids, ModelState* state, const ForwardOptions& options, Trace* trace) const {
  // In this layout the embedding knows no padding row: pad_token_id is informative.
  Tensor x = embed(embeddings, embed_ngrams, ids, /*pad=*/-1, state, options.lengths);  // [B,T,d]
  for (size_t l = 0; l < layers.size(); ++l) {
    x = x + layers[l].mixer.forward(x, layers[l].norm, state ? &state->ssm[l] : nullptr, options.lengths);
    if (trace != nullptr) trace->hidden.push_back(x.detach());
  }
  if (state != nullptr)
    state->positions = state->positions + options.lengths.value_or(at::full({ids.size(0)}, ids.size(1), ids.options()));
  return norm_f(x);
}

ModelState Mamba::initial_state(int64_t batch) const {
  ModelState state;
  state.positions = at::zeros({batch}, embeddings.options().dtype(at::kLong));
  state.recent_codes = embed_ngrams.no_codes(batch);
  for (const MambaLayer& layer : layers) state.ssm.push_back(layer.mixer.initial_state(batch));
  return state;
}

void Mamba::visit(const ParameterVisitor& visitor) {
  visitor("backbone.embeddings.weight", embeddings);
  embed_ngrams.visit("backbone.embed_ngrams", visitor);
  for (size_t l = 0; l < layers.size(); ++l) {
    layers[l].norm.visit(fmt::format("backbone.layers.{}.norm", l), visitor);
    layers[l].mixer.visit(fmt::format("backbone.layers.{}.mixer", l), visitor);
  }
  norm_f.visit("backbone.norm_f", visitor);
  if (lm_head.defined()) visitor("lm_head.weight", lm_head);
}

void Mamba::initialize(uint64_t seed) {
  at::NoGradGuard no_grad;
  fill_normal(embeddings, config_.initializer_range, seed, "backbone.embeddings.weight");
  for (Tensor& table : embed_ngrams.tables) table.zero_();  // as in fill_new()
  for (size_t l = 0; l < layers.size(); ++l) {
    layers[l].norm.weight.fill_(1.0);
    layers[l].mixer.initialize(config_, seed, fmt::format("backbone.layers.{}.mixer", l));
  }
  norm_f.weight.fill_(1.0);
  if (lm_head.defined()) fill_normal(lm_head, config_.initializer_range, seed, "lm_head.weight");
}

}  // namespace pmnet
