// Between tensors and the safetensors container.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/checkpoint_files.h"
#include "io/safetensors.h"

namespace pmnet {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Reads one tensor; UserError for an element type that LibTorch does not have.
at::Tensor read_tensor(const StoredTensor& stored);

// A whole file by name.
std::map<std::string, at::Tensor> read_tensors(const SafetensorsFile& file);
std::map<std::string, at::Tensor> read_tensors(const std::filesystem::path& file);

// Views of contiguous CPU tensors for the writer; `keep` holds the copies that some needed.
std::vector<TensorView> tensor_views(const NamedTensors& tensors, std::vector<at::Tensor>& keep);

}  // namespace pmnet
