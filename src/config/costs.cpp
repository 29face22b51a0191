#include "config/costs.h"

#include <algorithm>
#include <cmath>

// Letters as in docs/explanation/equations.md: d hidden, f SwiGLU width, L layers, H levels, M phases per slot, N
// slots, R read heads, V vocabulary.

namespace pmnet {
namespace {

using Parts = std::vector<CostPart>;
constexpr double kFloatBytes = 4;
constexpr double kPhaseBytes = 8;
constexpr double kCodeBytes = 8;

// The same sizes as doubles: their products cannot overflow.
struct MemorySizes {
  double d, M, N, R, layers, levels, groups, key_width;

  explicit MemorySizes(const PmnetConfig& c)
      : d(c.hidden_size),
        M(c.memory_size),
        N(c.num_memory),
        R(c.num_read_heads),
        layers(c.memory_modules ? c.num_layers : 0),
        levels(c.memory_modules ? c.num_levels() : 0),
        groups(c.memory_modules ? c.total_groups() : 0),
        key_width((c.memory_keys == MemoryKeys::kBoth ? 4 : 2) * M) {}  // features that a key is made of
};

double linear(double in, double out, bool bias) { return in * out + (bias ? out : 0); }

// Shared by PMNet and the Transformer, which name these sizes alike.
template <typename Config>
double attention_weights(const Config& c) {
  const double d = c.hidden_size, q = double(c.num_heads) * c.head_dim, kv = double(c.num_kv_heads) * c.head_dim;
  return linear(d, q, c.attention_bias) + 2 * linear(d, kv, c.attention_bias) + linear(q, d, c.attention_bias);
}

template <typename Config>
double mlp_products(const Config& c) {
  return 3.0 * c.hidden_size * c.intermediate_size;
}

template <typename Config>
double attention_products(const Config& c, double keys_seen) {
  const double d = c.hidden_size, q = double(c.num_heads) * c.head_dim, kv = double(c.num_kv_heads) * c.head_dim;
  return 2 * d * q + 2 * d * kv + 2 * q * keys_seen;  // projections; scores and weighted sum
}

template <typename Config>
double head_parameters(const Config& c) {
  return c.tie_word_embeddings ? 0 : double(c.vocab_size) * c.hidden_size;
}

template <typename Config>
double ngram_parameters(const Config& c) {
  return (c.max_ngram - 1.0) * static_cast<double>(c.ngram_rows) * static_cast<double>(c.hidden_size);
}

Parts parameters(const PmnetConfig& c) {
  const MemorySizes s(c);
  const double d = s.d, M = s.M, L = c.num_layers;
  const double read = d + linear(d, s.R * M, true) + linear(2 * M, s.R * M, true) + linear(s.key_width, s.R * M, true) +
                      linear(s.R * M, d, true);
  const double write = d + 2 * linear(d, M, true) + linear(s.key_width, M, true) + linear(M, M, true);
  return {{"token embedding", double(c.vocab_size) * d},
          {"n-gram embeddings", ngram_parameters(c)},
          {"memory embeddings", s.groups * s.N * M},
          {"attention", L * (attention_weights(c) + 2.0 * c.head_dim)},
          {"memory read", s.layers * read},
          {"memory write", s.levels * write},
          {"feed-forward", L * mlp_products(c)},
          {"norms", (2 * L + 1) * d},
          {"output head", head_parameters(c)}};
}

Parts parameters(const TransformerConfig& c) {
  const double d = c.hidden_size, L = c.num_layers, f = c.intermediate_size;
  return {{"token embedding", double(c.vocab_size) * d},
          {"n-gram embeddings", ngram_parameters(c)},
          {"attention", L * attention_weights(c)},
          {"feed-forward", L * (mlp_products(c) + (c.mlp_bias ? 2 * f + d : 0))},
          {"norms", (2 * L + 1) * d},
          {"output head", head_parameters(c)}};
}

Parts parameters(const MambaConfig& c) {
  const double d = c.hidden_size, i = c.intermediate_size, L = c.num_layers, r = c.time_step_rank, S = c.state_size;
  return {{"token embedding", double(c.vocab_size) * d},
          {"n-gram embeddings", ngram_parameters(c)},
          {"projections", L * (linear(d, 2 * i, c.use_bias) + linear(i, d, c.use_bias))},
          {"convolution", L * (i * c.conv_kernel + (c.use_conv_bias ? i : 0))},
          {"selective scan", L * (i * (r + 2 * S) + linear(r, i, true) + i * S + i)},
          {"norms", (L + 1) * d},
          {"output head", head_parameters(c)}};
}

double full_layers(const PmnetConfig& c) {
  return static_cast<double>(std::count(c.layer_types.begin(), c.layer_types.end(), LayerType::kFull));
}

Parts multiply_adds(const PmnetConfig& c, double context) {
  const MemorySizes s(c);
  const double d = s.d, M = s.M, L = c.num_layers, full = full_layers(c);
  const double window = std::min<double>(c.sliding_window, context);
  return {{"read K", s.layers * s.N * s.key_width * s.R * M},
          {"read V, q, o", s.layers * (2 * M * s.R * M + 2 * d * s.R * M)},
          {"write", s.levels * (2 * d * M + M * M + s.N * s.key_width * M)},
          {"attention", (L - full) * attention_products(c, window) + full * attention_products(c, context / 2)},
          {"feed-forward", L * mlp_products(c)},
          {"output head", double(c.vocab_size) * d}};
}

Parts multiply_adds(const TransformerConfig& c, double context) {
  return {{"attention", c.num_layers * attention_products(c, context / 2)},
          {"feed-forward", c.num_layers * mlp_products(c)},
          {"output head", double(c.vocab_size) * c.hidden_size}};
}

Parts multiply_adds(const MambaConfig& c, double) {
  const double d = c.hidden_size, i = c.intermediate_size, L = c.num_layers, r = c.time_step_rank, S = c.state_size;
  return {{"projections", L * 3 * d * i},
          {"convolution", L * i * c.conv_kernel},
          {"step size, B, C", L * (i * (r + 2 * S) + r * i)},
          {"selective scan", L * (4 * i * S + i)},  // step times A, step times u times B, state, C times state; D u
          {"output head", double(c.vocab_size) * d}};
}

Parts streaming_state(const PmnetConfig& c, double position) {
  const MemorySizes s(c);
  const double per_token = 2.0 * c.num_kv_heads * c.head_dim * kFloatBytes;
  const double full = full_layers(c);
  const double window = c.sliding_window - 1.0;
  return {{"keys and values in the window", (c.num_layers - full) * window * per_token},
          {"keys and values of full attention", full * position * per_token},
          {"memory phases", c.memory_cumsum ? s.groups * s.N * s.M * kPhaseBytes : 0}};
}

Parts streaming_state(const TransformerConfig& c, double position) {
  return {{"keys and values", 2.0 * c.num_layers * position * c.num_kv_heads * c.head_dim * kFloatBytes}};
}

Parts streaming_state(const MambaConfig& c, double) {
  const double L = c.num_layers, i = c.intermediate_size;
  return {{"scan state", L * i * c.state_size * kFloatBytes},
          {"convolution inputs", L * i * (c.conv_kernel - 1.0) * kFloatBytes}};
}

// Floats kept per token: attention keeps its input and norm, q, k, v before and after norm and rotation, its output
// and the softmax's logarithm per head; the MLP its input and norm, gate, up, and their product.
template <typename Config>
double block_activations(const Config& c) {
  const double d = c.hidden_size, q = double(c.num_heads) * c.head_dim, kv = double(c.num_kv_heads) * c.head_dim;
  return 4 * d + 3 * q + 4 * kv + c.num_heads + 3.0 * c.intermediate_size;
}

double activations(const PmnetConfig& c) {
  const MemorySizes s(c);
  const double d = s.d, M = s.M, N = s.N, R = s.R;
  const double read = 2 * d + 2 * R * M + N * R * M + N * R + 2 * R * M + R * M;   // x, norm; q; K; scores; sums; V
  const double write = 2 * d + 4 * M + 2 * N * M + N + N * M + N * M + 2 * N * M;  // q, v, m; k; a; delta; state; Phi
  return c.num_layers * block_activations(c) + s.layers * read + s.levels * write;
}

double activations(const TransformerConfig& c) { return c.num_layers * block_activations(c); }

// The scan keeps its inputs and recomputes the states.
double activations(const MambaConfig& c) {
  const double d = c.hidden_size, i = c.intermediate_size;
  return c.num_layers * (2 * d + 7 * i + c.time_step_rank + 2.0 * c.state_size);
}

}  // namespace

double total(const Parts& parts) {
  double sum = 0;
  for (const CostPart& part : parts) sum += part.amount;
  return sum;
}

Parts parameter_parts(const ModelConfig& config) {
  return std::visit([](const auto& c) { return parameters(c); }, config);
}

int64_t parameter_count(const ModelConfig& config) { return std::llround(total(parameter_parts(config))); }

Parts multiply_adds_per_token(const ModelConfig& config, int64_t context) {
  return std::visit([&](const auto& c) { return multiply_adds(c, static_cast<double>(context)); }, config);
}

double training_flop_per_byte(const ModelConfig& config, int64_t context) {
  return 6 * total(multiply_adds_per_token(config, context));
}

Parts streaming_state_bytes(const ModelConfig& config, int64_t position) {
  Parts parts = std::visit([&](const auto& c) { return streaming_state(c, static_cast<double>(position)); }, config);
  parts.push_back({"latest bytes for n-grams", (max_ngram(config) - 1.0) * kCodeBytes});
  return parts;
}

Parts training_memory_bytes(const ModelConfig& config, int64_t batch, int64_t context) {
  const double weights = total(parameter_parts(config)) * kFloatBytes;
  const double tokens = static_cast<double>(batch) * static_cast<double>(context);
  const double vocabulary = std::visit([](const auto& c) { return static_cast<double>(c.vocab_size); }, config);
  const double per_token = std::visit([](const auto& c) { return activations(c); }, config);
  return {{"weights", weights},
          {"gradients", weights},
          {"optimizer moments", 2 * weights},
          {"activations", tokens * per_token * kFloatBytes},
          {"logits and their gradient", tokens * 2 * vocabulary * kFloatBytes}};
}

}  // namespace pmnet
