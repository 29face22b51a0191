#include "engine/transformer_engine.h"

#include <fmt/format.h>

namespace pmnet {

TransformerEngine::TransformerEngine(const EngineWeights& weights)
    : CpuEngine(weights,
                {.embedding = "model.embed_tokens.weight", .ngrams = "model.embed_ngrams", .norm = "model.norm"},
                std::get<TransformerConfig>(weights.config()).rms_norm_eps,
                std::get<TransformerConfig>(weights.config()).tie_word_embeddings),
      c_(std::get<TransformerConfig>(weights.config())) {
  for (int64_t l = 0; l < c_.num_layers; ++l) {
    const std::string prefix = fmt::format("model.layers.{}", l);
    Layer layer{read_attention(weights, prefix, c_.attention_bias, /*norm_heads=*/false, c_.rms_norm_eps),
                read_mlp(weights, prefix, c_.mlp_bias, c_.rms_norm_eps)};
    layer.attention.num_heads = c_.num_heads;
    layer.attention.num_kv_heads = c_.num_kv_heads;
    layer.attention.head_dim = c_.head_dim;
    layers_.push_back(std::move(layer));
  }
}

EngineState TransformerEngine::initial_state(int64_t batch) const {
  SequenceState fresh = fresh_state();
  fresh.attention.assign(layers_.size(), KvWindow(c_.num_kv_heads, c_.head_dim, /*window=*/0, at::kFloat));
  return EngineState(batch, fresh);
}

void TransformerEngine::run_layers(Pass& pass) const {
  rotary_tables(pass, c_.head_dim, c_.rope_theta);
  for (size_t l = 0; l < layers_.size(); ++l) {
    attend(pass, layers_[l].attention, static_cast<int64_t>(l));
    mlp(pass, layers_[l].mlp);
    if (pass.trace) pass.trace->hidden.push_back(pass.traced(pass.a.x.data(), {width()}, 0.0f));
  }
}

}  // namespace pmnet
