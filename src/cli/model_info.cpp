#include "cli/model_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "config/config_json.h"
#include "config/costs.h"
#include "config/presets.h"

namespace pmnet {

namespace {

constexpr int64_t kContext = 4096;             // tokens per sequence, where costs depend on it
constexpr int64_t kLongContext = 1024 * 1024;  // where a state that grows shows it

ModelConfig find_config(const std::string& preset_or_dir) {
  if (const auto preset = find_preset(preset_or_dir)) return *preset;
  const std::filesystem::path path(preset_or_dir);
  if (!std::filesystem::is_directory(path))
    fail("'{}' is neither a preset ({}) nor a checkpoint folder{}", preset_or_dir, fmt::join(preset_names(), ", "),
         did_you_mean(preset_or_dir, preset_names()));
  const ParsedConfig parsed = read_config(path / "config.json");
  for (const std::string& warning : parsed.warnings) fmt::print(stderr, "pmnet: {}\n", warning);
  return parsed.config;
}

template <typename Value>
void row(const std::string& name, const Value& value) {
  fmt::print("  {:<36}{:>18}\n", name, value);
}

void print_parts(const std::string& title, const std::vector<CostPart>& parts) {
  fmt::print("\n{}\n", title);
  for (const CostPart& part : parts)
    if (part.amount > 0) row(part.name, format_count(std::llround(part.amount)));
  row("total", format_count(std::llround(total(parts))));
}

void print_shape(const PmnetConfig& config) {
  row("layers", config.num_layers);
  row("hidden size", config.hidden_size);
  row("feed-forward size", config.intermediate_size);
  row("heads x head size", fmt::format("{} x {}", config.num_heads, config.head_dim));
  row("key/value heads", config.num_kv_heads);
  row("window", config.has_full_attention() ? fmt::format("{}, and full", config.sliding_window)
                                            : fmt::format("{}", config.sliding_window));
  row("vocabulary", config.vocab_size);
  if (!config.memory_modules) return;
  fmt::print("\nmemory tree\n");
  row("slots per group x phases per slot", fmt::format("{} x {}", config.num_memory, config.memory_size));
  row("read heads", config.num_read_heads);
  row("layers per level", config.write_period);
  for (int64_t level = 0; level < config.num_levels(); ++level)
    row(fmt::format("groups of level {}", level), config.num_groups(level));
  row("groups in all", config.total_groups());
}

void print_shape(const TransformerConfig& config) {
  row("layers", config.num_layers);
  row("hidden size", config.hidden_size);
  row("feed-forward size", config.intermediate_size);
  row("heads x head size", fmt::format("{} x {}", config.num_heads, config.head_dim));
  row("key/value heads", config.num_kv_heads);
  row("vocabulary", config.vocab_size);
}

void print_shape(const MambaConfig& config) {
  row("layers", config.num_layers);
  row("hidden size", config.hidden_size);
  row("inner size", config.intermediate_size);
  row("state size", config.state_size);
  row("convolution width", config.conv_kernel);
  row("rank of the step size", config.time_step_rank);
  row("vocabulary", config.vocab_size);
}

}  // namespace

void print_model_info(const std::string& preset_or_dir) {
  const ModelConfig config = find_config(preset_or_dir);
  fmt::print("{} ({})\n", preset_or_dir, model_type(config));
  std::visit([](const auto& sizes) { print_shape(sizes); }, config);
  print_parts("parameters", parameter_parts(config));
  for (const int64_t position : {kContext, kLongContext})
    print_parts(fmt::format("bytes of streaming state after {} bytes of text", format_count(position)),
                streaming_state_bytes(config, position));
  print_parts(fmt::format("multiply-adds per byte in a text of {} bytes", format_count(kContext)),
              multiply_adds_per_token(config, kContext));
  print_parts(fmt::format("bytes of training memory for one sequence of {} bytes, an estimate", format_count(kContext)),
              training_memory_bytes(config, /*batch=*/1, kContext));
}

}  // namespace pmnet
