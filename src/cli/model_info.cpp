#include "cli/model_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/standard_streams.h"
#include "base/suggest.h"
#include "config/config_json.h"
#include "config/costs.h"
#include "config/model_fields.h"
#include "config/presets.h"
#include "io/checkpoint_files.h"
#include "train/open_model.h"

namespace pmnet {

namespace {

constexpr int64_t kContext = 4096;             // tokens per sequence, where costs depend on it
constexpr int64_t kLongContext = 1024 * 1024;  // where a state that grows shows it

struct Described {
  ModelConfig config;
  std::filesystem::path folder;  // of the weights; empty for a preset
};

Described find_model(const std::string& preset_or_folder) {
  if (const auto preset = find_preset(preset_or_folder)) return {*preset, ""};
  if (!std::filesystem::is_directory(preset_or_folder))
    fail("'{}' is neither a preset ({}) nor a model folder{}", preset_or_folder, fmt::join(preset_names(), ", "),
         did_you_mean(preset_or_folder, preset_names()));
  const std::filesystem::path folder = weights_folder(preset_or_folder);
  const ParsedConfig parsed = read_config(folder / "config.json");
  for (const std::string& warning : parsed.warnings) print_error("pmnet: {}", warning);
  return {parsed.config, folder};
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

// Types of layers by number: a list of them is as long as the model is deep.
std::string layer_types_text(const PmnetConfig& config) {
  const auto sliding = std::ranges::count(config.layer_types, LayerType::kSliding);
  const auto full = static_cast<std::ptrdiff_t>(config.layer_types.size()) - sliding;
  std::vector<std::string> parts;
  if (sliding > 0) parts.push_back(fmt::format("{} x {}", sliding, enum_name(LayerType::kSliding)));
  if (full > 0) parts.push_back(fmt::format("{} x {}", full, enum_name(LayerType::kFull)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

template <typename Config>
void print_fields(const Config& config) {
  for (const ModelField<Config>& field : model_fields<Config>()) {
    std::string value = field_to_toml(field.get(config));
    if constexpr (std::is_same_v<Config, PmnetConfig>)
      if (field.key == "layer_types") value = layer_types_text(config);
    fmt::print("  {:<26}{:>28}  {}\n", field.key, value, field.help);
  }
}

void print_tree(const PmnetConfig& config) {
  if (!config.memory_modules) return;
  fmt::print("\nmemory tree\n");
  for (int64_t level = 0; level < config.num_levels(); ++level)
    row(fmt::format("groups of level {}", level), config.num_groups(level));
  row("groups in all", config.total_groups());
}

std::string element_type(DType dtype) {
  return dtype == DType::kI8     ? "int8"
         : dtype == DType::kBF16 ? "bf16"
         : dtype == DType::kF32  ? "float32"
                                 : std::string(name_of(dtype));
}

// Bytes by element type: a quantized model is smaller than its number of parameters suggests.
void print_stored_weights(const std::filesystem::path& folder) {
  std::map<std::string, double> bytes;
  const TensorSet set = TensorSet::open(folder);
  for (const StoredTensor& tensor : set.tensors())
    bytes[element_type(tensor.info->dtype)] += static_cast<double>(tensor.info->bytes());
  std::vector<CostPart> parts;
  for (const auto& [type, amount] : bytes) parts.push_back({type, amount});
  print_parts("bytes of weights on disk, by element type", parts);
}

}  // namespace

void print_presets() {
  fmt::print("{:<8}{:>14}{:>8}{:>8}{:>8}\n", "preset", "parameters", "layers", "width", "window");
  for (const std::string& name : preset_names()) {
    const PmnetConfig config = preset(name);
    fmt::print("{:<8}{:>14}{:>8}{:>8}{:>8}\n", name, format_count(parameter_count(config)), config.num_layers,
               config.hidden_size, config.sliding_window);
  }
  fmt::print("\n'pmnet info PRESET' describes one of them, 'pmnet new PRESET DIR' makes a model folder\n");
}

void print_model_info(const std::string& preset_or_folder) {
  const auto [config, folder] = find_model(preset_or_folder);
  fmt::print("{} ({})\n", folder.empty() ? preset_or_folder : folder.string(), model_type(config));
  std::visit([](const auto& model) { print_fields(model); }, config);
  if (const auto* pmnet = std::get_if<PmnetConfig>(&config)) print_tree(*pmnet);
  print_parts("parameters", parameter_parts(config));
  if (!folder.empty()) print_stored_weights(folder);
  for (const int64_t position : {kContext, kLongContext})
    print_parts(fmt::format("bytes of streaming state after {} bytes of text", format_count(position)),
                streaming_state_bytes(config, position));
  print_parts(fmt::format("multiply-adds per byte in a text of {} bytes", format_count(kContext)),
              multiply_adds_per_token(config, kContext));
  print_parts(fmt::format("bytes of training memory for one sequence of {} bytes, an estimate", format_count(kContext)),
              training_memory_bytes(config, /*batch=*/1, kContext));
}

}  // namespace pmnet
