// The config.json of a model folder: PMNet's published keys, or those of Hugging Face for llama and mamba, by
// model_type.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "config/model_config.h"

namespace pmnet {

struct ParsedConfig {
  ModelConfig config;
  std::vector<std::string> warnings;  // unknown keys
};

// Both throw one UserError with every problem of the file; the result has passed problems().
ParsedConfig parse_config(const std::string& json_text, const std::string& where);
ParsedConfig read_config(const std::filesystem::path& file);

// With the keys that let Hugging Face and the authors' Python load it.
std::string to_json(const ModelConfig& config);

// "PMNet", "llama" or "mamba"
std::string model_type(const ModelConfig& config);

}  // namespace pmnet
