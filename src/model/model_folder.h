// A folder is a checkpoint: config.json, model.safetensors (or shards) and the tokenizer's files, under the published
// names, so that the authors' Python and Hugging Face load ours and we load theirs.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "model/language_model.h"

namespace pmnet {

struct LoadedModel {
  std::unique_ptr<LanguageModel> model;
  ModelConfig config;
  std::vector<std::string> warnings;  // unknown config keys, tensors nobody asked for, weights that are not finite
};

struct LoadOptions {
  at::ScalarType dtype = at::kFloat;  // the weights are converted to it
  bool strict = false;                // refuse what would be a warning
  bool keep_small = false;            // linear layers stored as bf16 or int8 stay so, to be packed for inference
};

LoadedModel load_model(const std::filesystem::path& folder, const LoadOptions& options = {});

// A preset's name or a folder: random weights from `seed` in the first case.
LoadedModel load_or_make_model(const std::string& preset_or_folder, uint64_t seed);

// Atomic: the folder is there complete or not at all. Replaces an older model of ours.
void save_model(const std::filesystem::path& folder, LanguageModel& model, const ModelConfig& config);

// The files of a model folder, into a folder that is there.
void write_model_files(const std::filesystem::path& folder, LanguageModel& model, const ModelConfig& config);

// Identifies the weights: state files carry it, so that a memory is never loaded into another model.
std::string model_hash(LanguageModel& model);

}  // namespace pmnet
