#include "config/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/costs.h"

namespace pmnet {
namespace {

using Problems = std::vector<std::string>;

bool check_integer(Problems& problems, const char* key, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return true;
  problems.push_back(fmt::format("{} must be between {} and {}, not {}", key, least, most, value));
  return false;
}

bool check_width(Problems& problems, const char* key, int64_t value) {
  return check_integer(problems, key, value, 1, kMaxWidth);
}

void check_positive(Problems& problems, const char* key, double value, double most) {
  if (!(value > 0 && value <= most)) {
    problems.push_back(fmt::format("{} must be above 0 and at most {:g}, not {:g}", key, most, value));
  }
}

void check_dropout(Problems& problems, double value) {
  if (!(value >= 0 && value < 1)) {
    problems.push_back(fmt::format("attention_dropout must be at least 0 and below 1, not {:g}", value));
  }
}

void check_token_id(Problems& problems, const char* key, int64_t id, int64_t least, int64_t vocab_size) {
  if (id >= least && id < vocab_size) return;
  problems.push_back(fmt::format("{} must be {} to vocab_size - 1 = {}, not {}", key, least < 0 ? "null or 0" : "0",
                                 vocab_size - 1, id));
}

void check_vocabulary(Problems& problems, int64_t vocab_size, int64_t bos, int64_t eos, int64_t pad) {
  if (!check_integer(problems, "vocab_size", vocab_size, 256, kMaxWidth)) return;  // every byte is an id
  check_token_id(problems, "bos_token_id", bos, 0, vocab_size);
  check_token_id(problems, "eos_token_id", eos, 0, vocab_size);
  check_token_id(problems, "pad_token_id", pad, -1, vocab_size);
}

void check_heads(Problems& problems, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  const bool heads_ok = check_width(problems, "num_attention_heads", heads);
  const bool kv_heads_ok = check_width(problems, "num_key_value_heads", kv_heads);
  if (heads_ok && kv_heads_ok && heads % kv_heads != 0) {
    problems.push_back(fmt::format(
        "num_attention_heads must be a multiple of num_key_value_heads, and {} is not one of {}", heads, kv_heads));
  }
  if (check_width(problems, "head_dim", head_dim) && head_dim % 2 != 0) {
    problems.push_back(fmt::format("head_dim must be even for the rotary embedding, not {}", head_dim));
  }
}

// Only for a config whose single sizes are all sound.
void check_total(Problems& problems, const ModelConfig& config) {
  const double parameters = total(parameter_parts(config));
  if (parameters > static_cast<double>(kMaxParameters)) {
    problems.push_back(
        fmt::format("the sizes make a model of {:.3g} parameters, and at most 2^40 are allowed", parameters));
  }
}

int64_t saturating_multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

int64_t saturating_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

}  // namespace

int64_t PmnetConfig::num_groups(int64_t level) const {
  int64_t groups = 1;
  for (int64_t h = 0; h < level && groups != INT64_MAX && num_memory > 1; ++h) {
    groups = saturating_multiply(groups, num_memory);
  }
  return groups;
}

int64_t PmnetConfig::total_groups() const {
  int64_t groups = 0;
  for (int64_t level = 0; level < num_levels(); ++level) groups = saturating_add(groups, num_groups(level));
  return groups;
}

bool PmnetConfig::has_full_attention() const {
  return std::find(layer_types.begin(), layer_types.end(), LayerType::kFull) != layer_types.end();
}

std::vector<std::string> PmnetConfig::problems() const {
  Problems problems;
  check_vocabulary(problems, vocab_size, bos_token_id, eos_token_id, pad_token_id);
  check_width(problems, "hidden_size", hidden_size);
  check_width(problems, "intermediate_size", intermediate_size);
  const bool layers_ok = check_integer(problems, "num_hidden_layers", num_layers, 1, kMaxLayers);
  check_heads(problems, num_heads, num_kv_heads, head_dim);
  check_width(problems, "memory_size", memory_size);
  const bool slots_ok = check_width(problems, "num_memory", num_memory);
  check_width(problems, "num_memory_read_heads", num_read_heads);
  const bool period_ok = check_integer(problems, "memory_write_period", write_period, 1, kMaxLayers);
  check_integer(problems, "sliding_window", sliding_window, 1, kMaxPosition);
  check_positive(problems, "rope_theta", rope_theta, 1e15);
  check_positive(problems, "rms_norm_eps", rms_norm_eps, 1);
  check_positive(problems, "initializer_range", initializer_range, 100);
  check_dropout(problems, attention_dropout);
  check_integer(problems, "max_position_embeddings", max_position_embeddings, 1, kMaxPosition);
  if (layers_ok && static_cast<int64_t>(layer_types.size()) != num_layers) {
    problems.push_back(
        fmt::format("layer_types must have num_hidden_layers = {} entries, not {}", num_layers, layer_types.size()));
  }
  if (layers_ok && slots_ok && period_ok && num_groups(num_levels() - 1) > kMaxGroups) {
    problems.push_back(
        fmt::format("num_memory = {} to the power of {} (one memory level per {} layers, the root apart) makes more "
                    "than 2^24 groups; lower num_memory or raise memory_write_period",
                    num_memory, num_levels() - 1, write_period));
  }
  if (problems.empty()) check_total(problems, *this);
  return problems;
}

std::vector<std::string> TransformerConfig::problems() const {
  Problems problems;
  check_vocabulary(problems, vocab_size, bos_token_id, eos_token_id, pad_token_id);
  check_width(problems, "hidden_size", hidden_size);
  check_width(problems, "intermediate_size", intermediate_size);
  check_integer(problems, "num_hidden_layers", num_layers, 1, kMaxLayers);
  check_heads(problems, num_heads, num_kv_heads, head_dim);
  check_positive(problems, "rope_theta", rope_theta, 1e15);
  check_positive(problems, "rms_norm_eps", rms_norm_eps, 1);
  check_positive(problems, "initializer_range", initializer_range, 100);
  check_dropout(problems, attention_dropout);
  check_integer(problems, "max_position_embeddings", max_position_embeddings, 1, kMaxPosition);
  if (problems.empty()) check_total(problems, *this);
  return problems;
}

std::vector<std::string> MambaConfig::problems() const {
  Problems problems;
  check_vocabulary(problems, vocab_size, bos_token_id, eos_token_id, pad_token_id);
  const bool hidden_ok = check_width(problems, "hidden_size", hidden_size);
  const bool inner_ok = check_width(problems, "intermediate_size", intermediate_size);
  if (hidden_ok && inner_ok && intermediate_size % hidden_size != 0) {
    problems.push_back(fmt::format("intermediate_size must be expand times hidden_size = {}, and {} is no multiple",
                                   hidden_size, intermediate_size));
  }
  check_integer(problems, "num_hidden_layers", num_layers, 1, kMaxLayers);
  check_width(problems, "state_size", state_size);
  check_integer(problems, "conv_kernel", conv_kernel, 1, 1 << 16);
  check_width(problems, "time_step_rank", time_step_rank);
  check_positive(problems, "layer_norm_epsilon", layer_norm_epsilon, 1);
  check_positive(problems, "initializer_range", initializer_range, 100);
  check_positive(problems, "time_step_min", time_step_min, 1e3);
  check_positive(problems, "time_step_max", time_step_max, 1e3);
  check_positive(problems, "time_step_floor", time_step_floor, 1e3);
  check_positive(problems, "time_step_scale", time_step_scale, 1e3);
  if (time_step_min > time_step_max) {
    problems.push_back(
        fmt::format("time_step_min = {:g} must not be above time_step_max = {:g}", time_step_min, time_step_max));
  }
  if (problems.empty()) check_total(problems, *this);
  return problems;
}

std::vector<std::string> problems(const ModelConfig& config) {
  return std::visit([](const auto& model) { return model.problems(); }, config);
}

}  // namespace pmnet
