// Letters: B batch, T time, d hidden width, L layers, P write period, N slots and branching, M phases, G groups.
#include "model/pmnet.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace pmnet {

DecoderLayer::DecoderLayer(const PmnetConfig& c, int64_t layer, const at::TensorOptions& options)
    : input_layernorm(c.hidden_size, c.rms_norm_eps, options),
      post_attention_layernorm(c.hidden_size, c.rms_norm_eps, options),
      self_attn({.width = c.hidden_size,
                 .num_heads = c.num_heads,
                 .num_kv_heads = c.num_kv_heads,
                 .head_dim = c.head_dim,
                 .window = c.slides(layer) ? c.sliding_window : 0,
                 .bias = c.attention_bias,
                 .norm_heads = true,
                 .norm_eps = c.rms_norm_eps,
                 .dropout = c.attention_dropout},
                options),
      mlp(c.hidden_size, c.intermediate_size, /*with_bias=*/false, options) {
  if (!c.memory_modules) return;
  memory_read_module.emplace(c, options);
  if (c.writes(layer)) memory_write_module.emplace(c, options);
}

void DecoderLayer::visit(const std::string& prefix, const ParameterVisitor& visitor) {
  input_layernorm.visit(prefix + ".input_layernorm", visitor);
  post_attention_layernorm.visit(prefix + ".post_attention_layernorm", visitor);
  self_attn.visit(prefix + ".self_attn", visitor);
  mlp.visit(prefix + ".mlp", visitor);
  if (memory_read_module) memory_read_module->visit(prefix + ".memory_read_module", visitor);
  if (memory_write_module) memory_write_module->visit(prefix + ".memory_write_module", visitor);
}

PMNet::PMNet(const PmnetConfig& config, at::ScalarType dtype) : config_(config) {
  const auto options = at::TensorOptions().dtype(dtype);
  embed_tokens = at::empty({config.vocab_size, config.hidden_size}, options);
  embed_ngrams = NgramEmbedding(config.max_ngram, config.ngram_rows, config.hidden_size, options);
  for (int64_t level = 0; config.memory_modules && level < config.num_levels(); ++level)
    memory_embeddings.push_back(at::empty({config.num_groups(level), config.num_memory, config.memory_size}, options));
  for (int64_t layer = 0; layer < config.num_layers; ++layer) layers.emplace_back(config, layer, options);
  norm = RmsNorm(config.hidden_size, config.rms_norm_eps, options);
  if (!config.tie_word_embeddings) lm_head = at::empty({config.vocab_size, config.hidden_size}, options);
}

// What travels down the layers of one pass.
struct PMNet::Pass {
  const ForwardOptions& options;
  ModelState* state;
  Trace* trace;
  MemoryPath path;
  Tensor next_group;    // [B,T]
  ops::OptTensor gate;  // [B,T,1], of the route to it
  Tensor keys, values;  // features of the current level; the same as published
};

Tensor PMNet::hidden(const Tensor& ids, ModelState* state, const ForwardOptions& options, Trace* trace) const {
  const int64_t B = ids.size(0), T = ids.size(1);
  const Tensor positions = state != nullptr ? state->positions : at::zeros({B}, ids.options());
  const RotaryTable rotary =
      rotary_table(positions, T, config_.head_dim, config_.rope_theta, embed_tokens.scalar_type());
  const AttentionPass attention{rotary, positions, options};

  Pass pass{.options = options,
            .state = state,
            .trace = trace,
            .path = {},
            .next_group = {},
            .gate = {},
            .keys = {},
            .values = {}};
  pass.next_group = at::zeros({B, T}, ids.options());  // every token starts at the root
  if (options.lengths)
    pass.next_group = pass.next_group.masked_fill(at::arange(T, ids.options()) >= options.lengths->unsqueeze(1), -1);

  Tensor x = embed(embed_tokens, embed_ngrams, ids, config_.pad_token_id, state, options.lengths);
  for (int64_t l = 0; l < config_.num_layers; ++l) {
    const DecoderLayer& layer = layers[l];
    x = x + layer.self_attn.forward(x, layer.input_layernorm, l, attention, state ? &state->attention[l] : nullptr);
    if (layer.memory_write_module) write(pass, x, l);
    if (layer.memory_read_module) {
      Tensor weights;
      x = x + layer.memory_read_module->forward(x, pass.keys, pass.values, trace ? &weights : nullptr);
      if (trace) trace->read_weights.push_back(weights);
    }
    x = x + layer.mlp(x, layer.post_attention_layernorm);
    if (trace) trace->hidden.push_back(x.detach());
  }
  if (state != nullptr) state->positions = positions + options.lengths.value_or(at::full({B}, T, ids.options()));
  return norm(x);
}

void PMNet::write(Pass& pass, const Tensor& x, int64_t layer) const {
  const int64_t level = config_.level_of(layer), G = config_.num_groups(level);
  const MemorySwitches& switches = pass.options.memory;
  pass.path.group = pass.next_group;
  Tensor anchors = memory_embeddings[level];
  if (switches.zeroes(level, config_.num_levels())) anchors = at::zeros_like(anchors);

  WriteSettings settings{.num_groups = G,
                         .recurrence = switches.recurrence.value_or(config_.memory_cumsum),
                         .unconstrained = switches.unconstrained,
                         .next_group = std::nullopt,
                         .grad_scale = std::nullopt,
                         .gate = pass.gate};
  if (pass.options.routes) settings.next_group = pass.options.routes->at(level);
  if (pass.options.training && switches.normalize_gradient && settings.recurrence) {
    const Tensor counts =
        pass.options.write_counts ? pass.options.write_counts->at(level) : count_writes(pass.path.group, G);
    settings.grad_scale = counts.clamp_min(1).rsqrt();  // Eq. 9
  }
  // Those of the last level lead nowhere.
  const bool teaches_routes = pass.options.training && config_.memory_tree && level + 1 < config_.num_levels();
  if (teaches_routes) settings.balance = switches.route_balance;
  const ops::Phases before = pass.state ? pass.state->memory[level] : ops::Phases{};
  WriteOutcome outcome = layers[layer].memory_write_module->forward(x, pass.path, anchors, before, settings);

  pass.path = outcome.path;
  pass.next_group = outcome.next_group;
  pass.values = value_features(config_.memory_values, pass.path, anchors, switches.unconstrained);
  pass.keys = config_.shares_features() ? pass.values
                                        : key_features(config_.memory_keys, pass.path, anchors, switches.unconstrained);
  if (pass.gate) pass.values = pass.values * pass.gate->unsqueeze(-1);
  if (teaches_routes && switches.straight_through)
    pass.gate = straight_through_gate(outcome.weights, pass.path.group, pass.next_group);
  if (pass.state && settings.recurrence) pass.state->memory[level] = outcome.memory;
  if (pass.trace) {
    pass.trace->num_groups.push_back(G);
    pass.trace->groups.push_back(pass.path.group);
    pass.trace->routes.push_back(outcome.next_group);
    pass.trace->route_weights.push_back(outcome.weights.detach());
    const ops::Phases& phases = pass.path.phases;
    pass.trace->path.push_back({phases.turns, phases.angle ? ops::OptTensor(phases.angle->detach()) : std::nullopt});
  }
}

ModelState PMNet::initial_state(int64_t batch) const {
  ModelState state;
  const auto options = embed_tokens.options();
  state.positions = at::zeros({batch}, options.dtype(at::kLong));
  state.recent_codes = embed_ngrams.no_codes(batch);
  for (const DecoderLayer& layer : layers)
    state.attention.push_back(layer.self_attn.initial_state(batch, embed_tokens.options()));
  for (const Tensor& anchors : memory_embeddings) {
    const std::vector<int64_t> sizes{batch, anchors.size(0), anchors.size(1), anchors.size(2)};
    ops::Phases zero;
    if (anchors.scalar_type() == at::kDouble)
      zero.angle = at::zeros(sizes, options);
    else
      zero.turns = at::zeros(sizes, options.dtype(at::kLong));
    state.memory.push_back(zero);
  }
  return state;
}

void PMNet::visit(const ParameterVisitor& visitor) {
  visitor("model.embed_tokens.weight", embed_tokens);
  embed_ngrams.visit("model.embed_ngrams", visitor);
  for (size_t level = 0; level < memory_embeddings.size(); ++level)
    visitor(fmt::format("model.memory_embeddings.{}", level), memory_embeddings[level]);
  for (size_t l = 0; l < layers.size(); ++l) layers[l].visit(fmt::format("model.layers.{}", l), visitor);
  norm.visit("model.norm", visitor);
  if (lm_head.defined()) visitor("lm_head.weight", lm_head);
}

void PMNet::initialize(uint64_t seed) {
  at::NoGradGuard no_grad;
  visit([&](const std::string& name, Tensor& parameter) {
    if (name.find("memory_embeddings") != std::string::npos)
      fill_normal(parameter, config_.memory_embedding_std, seed, name);
    else
      fill_new(parameter, {config_.initializer_range, config_.residual_init}, seed, name);
  });
  if (config_.pad_token_id >= 0) embed_tokens[config_.pad_token_id].zero_();
}

}  // namespace pmnet
