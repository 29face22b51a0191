#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/model_config.h"
#include "io/safetensors.h"

namespace pmnet {

// A tensor in one of the files of a TensorSet; valid as long as the set lives.
struct StoredTensor {
  const TensorInfo* info = nullptr;
  const SafetensorsFile* file = nullptr;

  void read(void* into) const { file->read(*info, into); }
};

// All tensors of a model: one model.safetensors, or the shards of a model.safetensors.index.json.
class TensorSet {
 public:
  // A folder, or one .safetensors file.
  static TensorSet open(const std::filesystem::path& folder_or_file);

  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // by name
  const StoredTensor* find(std::string_view name) const;
  const Metadata& metadata() const { return files_.front()->metadata(); }  // of the first file
  const std::filesystem::path& path() const { return path_; }

 private:
  void add_file(const std::filesystem::path& file);
  void add_shards(const std::filesystem::path& folder, const std::filesystem::path& index_file);
  void sort_by_name();

  std::filesystem::path path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<StoredTensor> tensors_;
};

struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Throws UserError listing every missing and every misshaped tensor at once; returns the unexpected names.
std::vector<std::string> require_tensors(const TensorSet& set, const std::vector<ExpectedTensor>& expected);

// Identifies a model by the names, dtypes, shapes and bytes of its tensors, whatever order they come in and however
// they are spread over files.
class ModelHash {
 public:
  void add(std::string_view name, DType dtype, const std::vector<int64_t>& shape, const void* data);
  std::string hex() const;  // 32 digits

  // Reads the files piece by piece.
  static std::string of(const TensorSet& set);

 private:
  std::map<std::string, std::string, std::less<>> digests_;  // by tensor name
};

// What Hugging Face wants beside configuration and weights, file name -> contents: the settings of the tokenizer, and
// the Python code that auto_map names.
std::map<std::string, std::string> hugging_face_files(const ModelConfig& config);

}  // namespace pmnet
