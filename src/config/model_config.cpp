#include "config/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "config/costs.h"
#include "config/model_fields.h"

namespace pmnet {
namespace {

void check_token_ids(Problems& problems, const auto& config) {
  const std::pair<const char*, int64_t> ids[] = {{"bos_token_id", config.bos_token_id},
                                                 {"eos_token_id", config.eos_token_id},
                                                 {"pad_token_id", config.pad_token_id}};
  for (const auto& [key, id] : ids)
    if (problems.none_with({key, "vocab_size"}) && id >= config.vocab_size)
      problems.add(key, fmt::format("{} is {}, expected 0 to vocab_size - 1 = {}", key, id, config.vocab_size - 1));
}

void check_heads(Problems& problems, const auto& config) {
  if (problems.none_with({"num_attention_heads", "num_key_value_heads"}) && config.num_heads % config.num_kv_heads != 0)
    problems.add("num_attention_heads",
                 fmt::format("num_attention_heads is {}, expected a multiple of num_key_value_heads = {}",
                             config.num_heads, config.num_kv_heads));
  if (problems.none_with({"head_dim"}) && config.head_dim % 2 != 0)
    problems.add("head_dim", fmt::format("head_dim is {}, expected an even number", config.head_dim));
}

void check_relations(Problems& problems, const PmnetConfig& c) {
  check_heads(problems, c);
  if (problems.none_with({"num_hidden_layers", "layer_types"}) &&
      static_cast<int64_t>(c.layer_types.size()) != c.num_layers)
    problems.add("layer_types", fmt::format("layer_types has {} entries, expected num_hidden_layers = {}",
                                            c.layer_types.size(), c.num_layers));
  if (problems.none_with({"num_hidden_layers", "num_memory", "memory_write_period"}) &&
      c.num_groups(c.num_levels() - 1) > kMaxGroups)
    problems.add("num_memory",
                 fmt::format("num_memory = {} to the power of {} (one memory level per {} layers, without the root) "
                             "makes more than 2^24 groups; lower num_memory or raise memory_write_period",
                             c.num_memory, c.num_levels() - 1, c.write_period));
}

void check_relations(Problems& problems, const TransformerConfig& c) { check_heads(problems, c); }

void check_relations(Problems& problems, const MambaConfig& c) {
  if (problems.none_with({"hidden_size", "intermediate_size"}) && c.intermediate_size % c.hidden_size != 0)
    problems.add("intermediate_size", fmt::format("intermediate_size is {}, expected a multiple of hidden_size = {}",
                                                  c.intermediate_size, c.hidden_size));
  if (problems.none_with({"time_step_min", "time_step_max"}) && c.time_step_min > c.time_step_max)
    problems.add("time_step_min", fmt::format("time_step_min is {:g}, expected at most time_step_max = {:g}",
                                              c.time_step_min, c.time_step_max));
}

template <typename Config>
void check_ranges(Problems& problems, const Config& config) {
  for (const ModelField<Config>& field : model_fields<Config>()) {
    const FieldValue value = field.get(config);
    const bool null = field.presence == Presence::kNullable && value == field.get(Config{});
    if (null || !problems.none_with({field.key.c_str()})) continue;
    if (auto problem = field.problem(value)) problems.add(field.key, *std::move(problem));
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
  for (int64_t h = 0; h < level && groups != INT64_MAX && num_memory > 1 && memory_tree; ++h) {
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

bool is_variant(const ModelConfig& config) {
  const auto* pmnet = std::get_if<PmnetConfig>(&config);
  return (pmnet != nullptr && !pmnet->published_memory()) || max_ngram(config) > 1;
}

void find_problems(const ModelConfig& config, Problems& problems) {
  std::visit(
      [&](const auto& model) {
        check_ranges(problems, model);
        if (problems.none_with({"ngram_rows"}) && !std::has_single_bit(static_cast<uint64_t>(model.ngram_rows)))
          problems.add("ngram_rows", fmt::format("ngram_rows is {}, expected a power of two", model.ngram_rows));
        check_token_ids(problems, model);
        check_relations(problems, model);
      },
      config);
  if (!problems.sentences().empty()) return;
  const double parameters = total(parameter_parts(config));
  if (parameters > static_cast<double>(kMaxParameters))
    problems.add("", fmt::format("the sizes make a model of {:.3g} parameters, expected at most 2^40", parameters));
}

std::vector<std::string> problems(const ModelConfig& config) {
  Problems found;
  find_problems(config, found);
  return found.sentences();
}

}  // namespace pmnet
