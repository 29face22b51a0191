// Between tensors and the safetensors container.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/checkpoint_files.h"
#include "io/safetensors.h"

namespace pmnet {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A weight as a file holds it: floating point, or int8 with one scale per row.
struct StoredWeight {
  at::Tensor values;
  std::optional<at::Tensor> scales = std::nullopt;
};
at::Tensor widened(const StoredWeight& stored);  // float32; not copied if it is that already
// By its name. A table of n-gram embeddings:
bool is_ngram_table(const std::string& name);
// What is stored in bf16 or int8: such tables, and the matrices of linear layers, in all published layouts called
// projections.
bool is_stored_smaller(const std::string& name);
// The name of the scales beside the int8 tensor "<layer>.weight".
std::string scale_name(const std::string& weight);

// Reads one tensor; UserError for an element type that LibTorch does not have.
at::Tensor read_tensor(const StoredTensor& stored);

// A whole file by name.
std::map<std::string, at::Tensor> read_tensors(const SafetensorsFile& file);
std::map<std::string, at::Tensor> read_tensors(const std::filesystem::path& file);

// Views of contiguous CPU tensors for the writer; `keep` holds the copies that some needed.
std::vector<TensorView> tensor_views(const NamedTensors& tensors, std::vector<at::Tensor>& keep);

}  // namespace pmnet
