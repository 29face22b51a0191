#include "config/presets.h"

#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"
#include "base/suggest.h"
#include "config/costs.h"

namespace pmnet {
namespace {

constexpr double kMatched = 0.02;  // relative difference in parameters

// One row per preset, in the letters of docs/explanation/equations.md.
struct Row {
  const char* name;
  int64_t d, f, L, A, d_h, M, N, R, P, w;
  double dropout;
};

constexpr Row kRows[] = {
    // name   d    f     L   A   d_h M    N  R  P  w    dropout
    {"119m", 512, 1024, 12, 12, 64, 512, 4, 4, 3, 128, 0.1}, {"30m", 256, 512, 12, 6, 64, 256, 4, 4, 3, 128, 0.1},
    {"11m", 160, 320, 12, 4, 64, 160, 4, 4, 3, 128, 0.0},    {"5m", 192, 512, 8, 6, 32, 96, 4, 2, 2, 64, 0.0},
    {"3m", 96, 256, 12, 4, 32, 64, 4, 4, 3, 128, 0.0},       {"1.6m", 128, 384, 6, 4, 32, 64, 4, 1, 2, 64, 0.0},
    {"1m", 64, 192, 8, 3, 32, 64, 4, 2, 2, 128, 0.0},        {"tiny", 32, 64, 4, 2, 16, 32, 4, 2, 2, 32, 0.0},
};

PmnetConfig config_of(const Row& row) {
  PmnetConfig config;
  config.hidden_size = row.d;
  config.intermediate_size = row.f;
  config.num_layers = row.L;
  config.num_heads = row.A;
  config.num_kv_heads = row.A;
  config.head_dim = row.d_h;
  config.memory_size = row.M;
  config.num_memory = row.N;
  config.num_read_heads = row.R;
  config.write_period = row.P;
  config.sliding_window = row.w;
  config.attention_dropout = row.dropout;
  config.layer_types.assign(row.L, LayerType::kSliding);
  return config;
}

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

double relative_difference(const ModelConfig& config, double parameters) {
  return std::abs(total(parameter_parts(config)) - parameters) / parameters;
}

// The roundest width whose model has the wanted parameters: coarse steps first, finer ones only when none fits.
// `with_width` makes the config; its parameters grow with the width.
template <typename MakeConfig>
auto closest_width(double parameters, int64_t coarsest_step, const MakeConfig& with_width) {
  auto best = with_width(coarsest_step);
  for (int64_t step = coarsest_step; step >= 1; step /= 2) {
    best = with_width(step);
    for (int64_t width = step; total(parameter_parts(best)) < parameters; width += step) {
      const auto candidate = with_width(width);
      if (relative_difference(candidate, parameters) > relative_difference(best, parameters)) break;
      best = candidate;
    }
    if (relative_difference(best, parameters) <= kMatched) break;
  }
  return best;
}

template <typename Config>
void copy_vocabulary(const PmnetConfig& model, Config& config) {
  config.vocab_size = model.vocab_size;
  config.tie_word_embeddings = model.tie_word_embeddings;
  config.bos_token_id = model.bos_token_id;
  config.eos_token_id = model.eos_token_id;
  config.pad_token_id = model.pad_token_id;
  config.max_ngram = model.max_ngram;
  config.ngram_rows = model.ngram_rows;
}

}  // namespace

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Row& row : kRows) list.emplace_back(row.name);
    return list;
  }();
  return names;
}

std::optional<PmnetConfig> find_preset(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return config_of(row);
  }
  return std::nullopt;
}

PmnetConfig preset(std::string_view name) {
  if (const auto found = find_preset(name)) return *found;
  fail("there is no preset '{}' among {}{}", name, fmt::join(preset_names(), ", "),
       did_you_mean(std::string(name), preset_names()));
}

TransformerConfig transformer_like(const PmnetConfig& model, int64_t layers) {
  const double parameters = total(parameter_parts(model));
  const auto with_heads = [&](int64_t heads) {
    TransformerConfig config;
    copy_vocabulary(model, config);
    config.num_layers = layers > 0 ? layers : model.num_layers;
    config.num_heads = heads;
    config.num_kv_heads = heads;
    config.head_dim = model.head_dim;
    config.hidden_size = heads * model.head_dim;
    config.intermediate_size = round_up((config.hidden_size * 8 + 2) / 3, 64);  // SwiGLU at the cost of a 4d MLP
    config.attention_dropout = model.attention_dropout;
    return config;
  };
  const TransformerConfig config = closest_width(parameters, 1, with_heads);
  if (relative_difference(config, parameters) <= kMatched) return config;
  // Heads are coarse in small models: the feed-forward width makes up the difference.
  const auto with_mlp = [&](int64_t width) {
    TransformerConfig adjusted = config;
    adjusted.intermediate_size = width;
    return adjusted;
  };
  return closest_width(parameters, 64, with_mlp);
}

MambaConfig mamba_like(const PmnetConfig& model) {
  const auto with_width = [&](int64_t width) {
    MambaConfig config;
    copy_vocabulary(model, config);
    config.num_layers = 2 * model.num_layers;  // one Mamba block stands for half a Transformer block
    config.hidden_size = width;
    config.intermediate_size = 2 * width;
    config.time_step_rank = (width + 15) / 16;
    return config;
  };
  return closest_width(total(parameter_parts(model)), 64, with_width);
}

ModelConfig like(Architecture architecture, const PmnetConfig& model) {
  switch (architecture) {
    case Architecture::kTransformer:
      return transformer_like(model);
    case Architecture::kMamba:
      return mamba_like(model);
    case Architecture::kPmnet:
      return model;
  }
  return model;
}

}  // namespace pmnet
