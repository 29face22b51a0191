// A folder is a model: config.json, model.safetensors (or shards) and the tokenizer's files, under the published names,
// so that the authors' Python and Hugging Face load ours and we load theirs.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config_json.h"
#include "config/model_config.h"
#include "io/checkpoint_files.h"
#include "model/language_model.h"
#include "model/tensors.h"

namespace pmnet {

// An open folder, whose weights are read one at a time. Names and shapes have been checked.
class ModelFolder {
 public:
  // Receives sentences about unknown config keys, surplus tensors, and weights that are not finite.
  using Warn = std::function<void(const std::string& warning)>;
  ModelFolder(const std::filesystem::path& folder, Warn warn);

  const ModelConfig& config() const { return config_; }
  // Matrices of linear layers as they are stored, everything else in float32. UserError for types that are no weights.
  StoredWeight read(const std::string& name) const;
  // Whether linear layers are stored as bf16 or int8.
  bool quantized() const;
  // Of the files as they were opened, even if others have taken their place since.
  std::string hash() const;

 private:
  ModelFolder(const std::filesystem::path& folder, const ParsedConfig& parsed, Warn warn);
  StoredWeight read_unchecked(const std::string& name) const;

  std::filesystem::path folder_;
  ModelConfig config_;
  Warn warn_;
  TensorSet set_;
  std::vector<std::string> names_;
};

struct LoadedModel {
  std::unique_ptr<LanguageModel> model;
  ModelConfig config;
  std::vector<std::string> warnings;  // see ModelFolder
};

struct LoadOptions {
  at::ScalarType dtype = at::kFloat;  // the weights are converted to it
  bool strict = false;                // refuse what would be a warning
};

LoadedModel load_model(const std::filesystem::path& folder, const LoadOptions& options = {});

// A preset's name or a folder: random weights from `seed` in the first case.
LoadedModel load_or_make_model(const std::string& preset_or_folder, uint64_t seed);

// Atomic: the folder is there complete or not at all. Replaces an older model of ours.
void save_model(const std::filesystem::path& folder, const NamedTensors& tensors, const ModelConfig& config);
void save_model(const std::filesystem::path& folder, const LanguageModel& model, const ModelConfig& config);

// The files of a model folder, into a folder that is there.
void write_model_files(const std::filesystem::path& folder, const NamedTensors& tensors, const ModelConfig& config);

// Identifies weights: state files carry it, so that a memory is never loaded into another model.
std::string tensors_hash(const NamedTensors& tensors);
std::string model_hash(const LanguageModel& model);

}  // namespace pmnet
