#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "config/model_config.h"

namespace pmnet {

// The names of layer_types.
inline constexpr const char* kSlidingName = "sliding_attention";
inline constexpr const char* kFullName = "full_attention";

// The config.json of a checkpoint: PMNet's published keys, or Hugging Face's for llama and mamba, told by model_type.
struct ParsedConfig {
  ModelConfig config;
  std::vector<std::string> warnings;  // keys that mean nothing here
};

// Both throw UserError with every problem of the file in one sentence; the result has passed problems().
ParsedConfig parse_config(const std::string& json_text, const std::string& where);
ParsedConfig read_config(const std::filesystem::path& file);

// With the keys that let Hugging Face and the authors' Python load it.
std::string to_json(const ModelConfig& config);

// "PMNet", "llama" or "mamba"
std::string model_type(const ModelConfig& config);

}  // namespace pmnet
