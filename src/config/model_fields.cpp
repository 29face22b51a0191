#include "config/model_fields.h"

#include <algorithm>

namespace pmnet {
namespace {

constexpr Range kWidth = from_to(1, kMaxWidth);
constexpr Range kTokenId = from_to(0, kMaxWidth);
constexpr Range kEpsilon = above_to(0, 1);
constexpr Range kTimeStep = above_to(0, 1e3);
constexpr auto kRequired = Presence::kRequired, kOptional = Presence::kOptional;

template <typename C>
using Rows = std::vector<ModelField<C>>;

template <typename C>
Rows<C> common_rows(Presence tie_word_embeddings) {
  return {
      {{"vocab_size", &C::vocab_size, "Vocabulary size V; bytes are ids 0 to 255", from_to(256, kMaxWidth)}, kRequired},
      {{"bos_token_id", &C::bos_token_id, "Begin of text; 256 for binary data", kTokenId}, kRequired},
      {{"eos_token_id", &C::eos_token_id, "End of text; 257 for binary data", kTokenId}, kRequired},
      {{"pad_token_id", &C::pad_token_id, "Padding; null: none", kTokenId}, Presence::kNullable},
      {{"tie_word_embeddings", &C::tie_word_embeddings, "The output layer is the embedding matrix"},
       tie_word_embeddings},
      {{"initializer_range", &C::initializer_range, "Standard deviation of new weights", above_to(0, 100)}, kRequired},
      {{"num_hidden_layers", &C::num_layers, "Layers L", from_to(1, kMaxLayers)}, kRequired},
      {{"hidden_size", &C::hidden_size, "Width d of the residual stream", kWidth}, kRequired},
      {{"intermediate_size", &C::intermediate_size, "Inner width f of the MLP or of the Mamba block", kWidth},
       kRequired},
      {{"max_ngram", &C::max_ngram,
        "Embeddings also of the last 2 to so many bytes, found by a hash; 1: of bytes alone", from_to(1, kMaxNgram)},
       Presence::kUnlessDefault},
      {{"ngram_rows", &C::ngram_rows, "Rows of the table of each n, a power of two", from_to(1, kMaxNgramRows)},
       Presence::kUnlessDefault},
  };
}

template <typename C>
Rows<C> attention_rows(Presence head_dim, Presence dropout) {
  return {
      {{"num_attention_heads", &C::num_heads, "Attention heads A", kWidth}, kRequired},
      {{"num_key_value_heads", &C::num_kv_heads, "Key/value heads; A is a multiple of them", kWidth}, kRequired},
      {{"head_dim", &C::head_dim, "Width of a head, even", kWidth}, head_dim},
      {{"rope_theta", &C::rope_theta, "Base of the rotary embedding", above_to(0, 1e15)}, kRequired},
      {{"rms_norm_eps", &C::rms_norm_eps, "Epsilon of RMSNorm", kEpsilon}, kRequired},
      {{"attention_dropout", &C::attention_dropout, "Dropout of attention probabilities in training", from_below(0, 1)},
       dropout},
      {{"attention_bias", &C::attention_bias, "Biases in the attention projections"}, dropout},
      {{"max_position_embeddings", &C::max_position_embeddings, "Informative", from_to(1, kMaxPosition)}, kOptional},
      {{"residual_init", &C::residual_init,
        "Factor of initializer_range in new matrices whose output is added to the residual stream; 0: a new layer "
        "changes nothing",
        from_to(0, 100)},
       Presence::kUnlessDefault},
  };
}

template <typename C>
Rows<C> joined(std::initializer_list<Rows<C>> tables) {
  Rows<C> rows;
  for (const Rows<C>& table : tables) rows.insert(rows.end(), table.begin(), table.end());
  return rows;
}

}  // namespace

template <>
const std::vector<ModelField<PmnetConfig>>& model_fields() {
  using C = PmnetConfig;
  static const Rows<C> rows = joined<C>({
      common_rows<C>(kRequired),
      attention_rows<C>(kRequired, kRequired),
      {
          {{"sliding_window", &C::sliding_window, "Attention window w: a byte sees itself and the w-1 before it",
            from_to(1, kMaxWindow)},
           kOptional},
          {{"layer_types", &C::layer_types, "Attention of each layer"}, kOptional},
          {{"memory_size", &C::memory_size, "Phases M per memory slot", kWidth}, kRequired},
          {{"num_memory", &C::num_memory, "Slots N per group, the branching factor of the tree", kWidth}, kRequired},
          {{"num_memory_read_heads", &C::num_read_heads, "Read heads R", kWidth}, kRequired},
          {{"memory_write_period", &C::write_period, "Layers P per memory level", from_to(1, kMaxLayers)}, kRequired},
          {{"memory_cumsum", &C::memory_cumsum, "false: writes are not accumulated (\"no recurrence\")"}, kRequired},
          {{"pmnet_memory_modules", &C::memory_modules, "false: a model without memory"}, Presence::kUnlessDefault},
          {{"memory_embedding_std", &C::memory_embedding_std, "Standard deviation of new memory embeddings",
            from_to(0, 100)},
           Presence::kUnlessDefault},
          {{"memory_keys", &C::memory_keys,
            "What addresses the slots: state, Φ(M + E) as published; anchor, Φ(E) alone; both, the two together"},
           Presence::kUnlessDefault},
          {{"memory_values", &C::memory_values,
            "What a read takes from the slots: anchored, Φ(M + E) as published; bare, Φ(M)"},
           Presence::kUnlessDefault},
          {{"memory_tree", &C::memory_tree,
            "false: a chain instead of a tree, one group per level, which every token writes to"},
           Presence::kUnlessDefault},
      },
  });
  return rows;
}

template <>
const std::vector<ModelField<TransformerConfig>>& model_fields() {
  using C = TransformerConfig;
  static const Rows<C> rows = joined<C>({
      common_rows<C>(kRequired),
      attention_rows<C>(kOptional, kOptional),
      {{{"mlp_bias", &C::mlp_bias, "Biases in the MLP"}, kOptional}},
  });
  return rows;
}

template <>
const std::vector<ModelField<MambaConfig>>& model_fields() {
  using C = MambaConfig;
  static const Rows<C> rows = joined<C>({
      common_rows<C>(kOptional),  // Hugging Face leaves tie_word_embeddings out of saved files; true is its default
      {
          {{"state_size", &C::state_size, "State size per channel", kWidth}, kRequired},
          {{"conv_kernel", &C::conv_kernel, "Width of the causal convolution", from_to(1, 1 << 16)}, kRequired},
          {{"time_step_rank", &C::time_step_rank, "Rank of the step-size projection", kWidth}, kRequired},
          {{"layer_norm_epsilon", &C::layer_norm_epsilon, "Epsilon of RMSNorm", kEpsilon}, kRequired},
          {{"time_step_min", &C::time_step_min, "Smallest initial step size", kTimeStep}, kRequired},
          {{"time_step_max", &C::time_step_max, "Largest initial step size", kTimeStep}, kRequired},
          {{"time_step_floor", &C::time_step_floor, "Lower bound of initial step sizes", kTimeStep}, kRequired},
          {{"time_step_scale", &C::time_step_scale, "Scale of the step-size projection", kTimeStep}, kRequired},
          {{"use_bias", &C::use_bias, "Biases in the projections"}, kRequired},
          {{"use_conv_bias", &C::use_conv_bias, "Bias in the convolution"}, kRequired},
          {{"rescale_prenorm_residual", &C::rescale_prenorm_residual, "Scale new output projections by 1/sqrt(L)"},
           kRequired},
      },
  });
  return rows;
}

bool Problems::none_with(std::initializer_list<const char*> keys) const {
  return std::none_of(keys.begin(), keys.end(), [&](const char* key) { return keys_.contains(key); });
}

}  // namespace pmnet
