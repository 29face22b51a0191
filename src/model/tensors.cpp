#include "model/tensors.h"

#include <ATen/ATen.h>

#include <array>

#include "base/error.h"

namespace pmnet {

namespace {

constexpr std::array kTypes{
    std::pair{DType::kF32, at::kFloat}, std::pair{DType::kF64, at::kDouble}, std::pair{DType::kBF16, at::kBFloat16},
    std::pair{DType::kF16, at::kHalf},  std::pair{DType::kI64, at::kLong},   std::pair{DType::kI32, at::kInt},
    std::pair{DType::kI16, at::kShort}, std::pair{DType::kI8, at::kChar},    std::pair{DType::kU8, at::kByte},
    std::pair{DType::kBool, at::kBool},
};

}  // namespace

at::Tensor widened(const StoredWeight& stored) {
  const at::Tensor values = stored.values.to(at::kFloat);
  return stored.scales ? values * stored.scales->unsqueeze(1) : values;
}

bool is_ngram_table(const std::string& name) { return name.find(".embed_ngrams.") != name.npos; }

bool is_stored_smaller(const std::string& name) {
  return is_ngram_table(name) || (name.ends_with(".weight") && name.find("proj") != name.npos);
}

std::string scale_name(const std::string& weight) { return weight + "_scale"; }

at::Tensor read_tensor(const StoredTensor& stored) {
  for (const auto& [dtype, scalar] : kTypes) {
    if (dtype != stored.info->dtype) continue;
    at::Tensor tensor = at::empty(stored.info->shape, scalar);
    if (tensor.numel() > 0) stored.read(tensor.mutable_data_ptr());
    return tensor;
  }
  fail("{}: tensor {} has element type {}, which is not supported; convert it to F32", stored.file->path().string(),
       stored.info->name, name_of(stored.info->dtype));
}

std::map<std::string, at::Tensor> read_tensors(const SafetensorsFile& file) {
  std::map<std::string, at::Tensor> tensors;
  for (const TensorInfo& info : file.tensors()) tensors.emplace(info.name, read_tensor({&info, &file}));
  return tensors;
}

std::map<std::string, at::Tensor> read_tensors(const std::filesystem::path& file) {
  return read_tensors(SafetensorsFile::open(file));
}

std::vector<TensorView> tensor_views(const NamedTensors& tensors, std::vector<at::Tensor>& keep) {
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    keep.push_back(tensor.detach().cpu().contiguous());
    const at::Tensor& t = keep.back();
    for (const auto& [dtype, scalar] : kTypes)
      if (scalar == t.scalar_type()) views.push_back({name, dtype, t.sizes().vec(), t.const_data_ptr()});
  }
  TORCH_CHECK(views.size() == tensors.size(), "a tensor has an element type that cannot be saved");
  return views;
}

}  // namespace pmnet
