#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/enum_names.h"

namespace pmnet {

enum class Architecture { kPmnet, kTransformer, kMamba };
template <>
inline constexpr auto kEnumNames<Architecture> = std::to_array<const char*>({"pmnet", "transformer", "mamba"});

enum class LayerType { kSliding, kFull };
template <>
inline constexpr auto kEnumNames<LayerType> = std::to_array<const char*>({"sliding_attention", "full_attention"});

// Where the keys that address the slots come from: Phi(M + E) as published, Phi(E) alone, or both.
enum class MemoryKeys { kState, kAnchor, kBoth };
template <>
inline constexpr auto kEnumNames<MemoryKeys> = std::to_array<const char*>({"state", "anchor", "both"});

// What a read takes from the slots: Phi(M + E) as published, or Phi(M), which means the same in every slot.
enum class MemoryValues { kAnchored, kBare };
template <>
inline constexpr auto kEnumNames<MemoryValues> = std::to_array<const char*>({"anchored", "bare"});

// Memory embeddings that a pass takes as zero.
enum class ZeroEmbeddings { kNone, kAll, kRoot, kLeaf };
template <>
inline constexpr auto kEnumNames<ZeroEmbeddings> = std::to_array<const char*>({"none", "all", "root", "leaf"});

// Upper bounds of problems(): far above any model that fits a machine, far below any overflow.
inline constexpr int64_t kMaxWidth = int64_t{1} << 24;           // of any one size
inline constexpr int64_t kMaxLayers = int64_t{1} << 16;          //
inline constexpr int64_t kMaxGroups = int64_t{1} << 24;          // per memory level
inline constexpr int64_t kMaxParameters = int64_t{1} << 40;      // of the whole model
inline constexpr int64_t kMaxWindow = int64_t{1} << 20;          // bytes; decoding keeps that many keys and values
inline constexpr int64_t kMaxNgram = 8;                          // bytes
inline constexpr int64_t kMaxNgramRows = int64_t{1} << 22;       // per table
inline constexpr int64_t kMaxPosition = (int64_t{1} << 31) - 1;  // informative context length

inline constexpr int64_t kNgramRows = 16384;  // unless the configuration says otherwise

// The published config.json of PMNet, field for field. Symbols are those of docs/explanation/equations.md.
struct PmnetConfig {
  int64_t vocab_size = 384;            // V, bytes are ids 0..255
  int64_t hidden_size = 0;             // d, residual width
  int64_t intermediate_size = 0;       // f, SwiGLU width
  int64_t num_layers = 0;              // L, num_hidden_layers
  int64_t num_heads = 0;               // A, num_attention_heads
  int64_t num_kv_heads = 0;            // A_kv, num_key_value_heads
  int64_t head_dim = 0;                // d_h; A * d_h need not equal d
  int64_t memory_size = 0;             // M, phases per memory slot
  int64_t num_memory = 0;              // N, slots per group = branching factor of the tree
  int64_t num_read_heads = 0;          // R, num_memory_read_heads
  int64_t write_period = 0;            // P, memory_write_period, layers per memory level
  int64_t sliding_window = 0;          // w, bytes: a token sees itself and the w-1 before it
  double rope_theta = 1e6;             //
  double rms_norm_eps = 1e-6;          //
  double initializer_range = 0.02;     //
  double attention_dropout = 0.0;      // on the attention probabilities, training only
  bool attention_bias = false;         //
  bool tie_word_embeddings = true;     //
  bool memory_cumsum = true;           // false: the "no recurrence" switch
  bool memory_modules = true;          // pmnet_memory_modules, not a published key: false builds no Write and no Read
  double memory_embedding_std = 0.02;  // not a published key: of the normal distribution that initialize() draws from
  double residual_init = 1;            // not a published key: scale of new o_proj, down_proj and the reads' proj_out
  MemoryKeys memory_keys = MemoryKeys::kState;           // not a published key: of writes and reads
  MemoryValues memory_values = MemoryValues::kAnchored;  // not a published key
  bool memory_tree = true;                               // not a published key: false, a chain of one group per level
  int64_t max_ngram = 1;                    // not a published key: embeddings of the last 2 to so many bytes
  int64_t ngram_rows = kNgramRows;          // not a published key: of the table of each n, a power of two
  int64_t max_position_embeddings = 40960;  // informative
  int64_t bos_token_id = 254;               // 256 in the variant for binary data
  int64_t eos_token_id = 255;               // 257 in the variant for binary data
  int64_t pad_token_id = -1;                // -1: none
  std::vector<LayerType> layer_types;       // one per layer

  int64_t num_levels() const { return (num_layers + write_period - 1) / write_period; }  // H = ceil(L / P)
  int64_t level_of(int64_t layer) const { return layer / write_period; }
  bool writes(int64_t layer) const { return layer % write_period == 0; }
  int64_t num_groups(int64_t level) const;  // N^h, in a chain 1; INT64_MAX where it does not fit
  int64_t total_groups() const;             // sum over the levels, 85 for L=12, P=3, N=4
  int64_t query_width() const { return num_heads * head_dim; }
  // Keys and values are then made of the same features, Phi(M + E).
  bool shares_features() const { return memory_keys == MemoryKeys::kState && memory_values == MemoryValues::kAnchored; }
  bool published_memory() const { return shares_features() && memory_tree; }
  bool slides(int64_t layer) const { return layer_types.at(layer) == LayerType::kSliding; }
  bool has_full_attention() const;  // then the streaming state grows with the text

  bool operator==(const PmnetConfig&) const = default;
};

// The Llama layout of Hugging Face: the Transformer baseline.
struct TransformerConfig {
  int64_t vocab_size = 384;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  double rope_theta = 10000.0;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  double residual_init = 1;  // as in PMNet
  double attention_dropout = 0.0;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool tie_word_embeddings = true;
  int64_t max_ngram = 1;  // as in PMNet
  int64_t ngram_rows = kNgramRows;
  int64_t max_position_embeddings = 2048;
  int64_t bos_token_id = 254;
  int64_t eos_token_id = 255;
  int64_t pad_token_id = -1;
  bool operator==(const TransformerConfig&) const = default;
};

// The Mamba-1 layout of Hugging Face.
struct MambaConfig {
  int64_t vocab_size = 384;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;  // expand * hidden_size
  int64_t num_layers = 0;
  int64_t state_size = 16;
  int64_t conv_kernel = 4;
  int64_t time_step_rank = 0;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.1;
  double time_step_min = 1e-3;
  double time_step_max = 0.1;
  double time_step_floor = 1e-4;
  double time_step_scale = 1.0;
  bool use_bias = false;
  bool use_conv_bias = true;
  bool rescale_prenorm_residual = false;
  bool tie_word_embeddings = true;
  int64_t max_ngram = 1;  // as in PMNet
  int64_t ngram_rows = kNgramRows;
  int64_t bos_token_id = 254;
  int64_t eos_token_id = 255;
  int64_t pad_token_id = -1;
  bool operator==(const MambaConfig&) const = default;
};

using ModelConfig = std::variant<PmnetConfig, TransformerConfig, MambaConfig>;

inline Architecture architecture_of(const ModelConfig& config) { return static_cast<Architecture>(config.index()); }
inline int64_t bos_token_id(const ModelConfig& config) {
  return std::visit([](const auto& c) { return c.bos_token_id; }, config);
}
inline int64_t eos_token_id(const ModelConfig& config) {
  return std::visit([](const auto& c) { return c.eos_token_id; }, config);
}

inline int64_t max_ngram(const ModelConfig& config) {
  return std::visit([](const auto& c) { return c.max_ngram; }, config);
}

// Whether another program that knows the architecture would compute something else.
bool is_variant(const ModelConfig& config);

// One sentence per problem, naming the key of config.json; empty when usable. Never allocates anything of model size.
std::vector<std::string> problems(const ModelConfig& config);

}  // namespace pmnet
