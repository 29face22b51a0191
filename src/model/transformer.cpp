#include "model/transformer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace pmnet {

TransformerLayer::TransformerLayer(const TransformerConfig& c, const at::TensorOptions& options)
    : input_layernorm(c.hidden_size, c.rms_norm_eps, options),
      post_attention_layernorm(c.hidden_size, c.rms_norm_eps, options),
      self_attn({.width = c.hidden_size,
                 .num_heads = c.num_heads,
                 .num_kv_heads = c.num_kv_heads,
                 .head_dim = c.head_dim,
                 .window = 0,
                 .bias = c.attention_bias,
                 .norm_heads = false,
                 .norm_eps = c.rms_norm_eps,
                 .dropout = c.attention_dropout},
                options),
      mlp(c.hidden_size, c.intermediate_size, c.mlp_bias, options) {}

void TransformerLayer::visit(const std::string& prefix, const ParameterVisitor& visitor) {
  input_layernorm.visit(prefix + ".input_layernorm", visitor);
  post_attention_layernorm.visit(prefix + ".post_attention_layernorm", visitor);
  self_attn.visit(prefix + ".self_attn", visitor);
  mlp.visit(prefix + ".mlp", visitor);
}

Transformer::Transformer(const TransformerConfig& config, at::ScalarType dtype) : config_(config) {
  const auto options = at::TensorOptions().dtype(dtype);
  embed_tokens = at::empty({config.vocab_size, config.hidden_size}, options);
  embed_ngrams = NgramEmbedding(config.max_ngram, config.ngram_rows, config.hidden_size, options);
  for (int64_t layer = 0; layer < config.num_layers; ++layer) layers.emplace_back(config, options);
  norm = RmsNorm(config.hidden_size, config.rms_norm_eps, options);
  if (!config.tie_word_embeddings) lm_head = at::empty({config.vocab_size, config.hidden_size}, options);
}

Tensor Transformer::hidden(const Tensor& ids, ModelState* state, const ForwardOptions& options, Trace* trace) const {
  const int64_t B = ids.size(0), T = ids.size(1);
  const Tensor positions = state != nullptr ? state->positions : at::zeros({B}, ids.options());
  const RotaryTable rotary =
      rotary_table(positions, T, config_.head_dim, config_.rope_theta, embed_tokens.scalar_type());
  const AttentionPass attention{rotary, positions, options};
  Tensor x = embed(embed_tokens, embed_ngrams, ids, config_.pad_token_id, state, options.lengths);  // [B,T,d]
  for (size_t l = 0; l < layers.size(); ++l) {
    const TransformerLayer& layer = layers[l];
    x = x + layer.self_attn.forward(x, layer.input_layernorm, l, attention, state ? &state->attention[l] : nullptr);
    x = x + layer.mlp(x, layer.post_attention_layernorm);
    if (trace != nullptr) trace->hidden.push_back(x.detach());
  }
  if (state != nullptr) state->positions = positions + options.lengths.value_or(at::full({B}, T, ids.options()));
  return norm(x);
}

ModelState Transformer::initial_state(int64_t batch) const {
  ModelState state;
  state.positions = at::zeros({batch}, embed_tokens.options().dtype(at::kLong));
  state.recent_codes = embed_ngrams.no_codes(batch);
  for (const TransformerLayer& layer : layers)
    state.attention.push_back(layer.self_attn.initial_state(batch, embed_tokens.options()));
  return state;
}

void Transformer::visit(const ParameterVisitor& visitor) {
  visitor("model.embed_tokens.weight", embed_tokens);
  embed_ngrams.visit("model.embed_ngrams", visitor);
  for (size_t l = 0; l < layers.size(); ++l) layers[l].visit(fmt::format("model.layers.{}", l), visitor);
  norm.visit("model.norm", visitor);
  if (lm_head.defined()) visitor("lm_head.weight", lm_head);
}

void Transformer::initialize(uint64_t seed) {
  at::NoGradGuard no_grad;
  visit([&](const std::string& name, Tensor& parameter) {
    fill_new(parameter, {config_.initializer_range, config_.residual_init}, seed, name);
  });
  if (config_.pad_token_id >= 0) embed_tokens[config_.pad_token_id].zero_();
}

}  // namespace pmnet
