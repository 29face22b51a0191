#include "engine/quantize.h"

#include <ATen/ATen.h>

#include "base/error.h"

namespace pmnet {

WeightType parse_weight_type(const std::string& name) {
  if (name == "float32") return WeightType::kF32;
  if (name == "bf16") return WeightType::kBF16;
  if (name == "int8") return WeightType::kInt8;
  fail("unknown weight type '{}'; expected float32, bf16 or int8", name);
}

StoredWeight quantize(const Tensor& weight, WeightType type) {
  const Tensor w = weight.detach().to(at::kFloat);
  if (type == WeightType::kF32) return {w};
  if (type == WeightType::kBF16) return {w.to(at::kBFloat16)};
  constexpr double kLargest = 127;
  const Tensor scales = (w.abs().amax(1) / kLargest).clamp_min(1e-30);
  return {(w / scales.unsqueeze(1)).round().clamp(-kLargest, kLargest).to(at::kChar), scales};
}

NamedTensors quantize_weights(const LanguageModel& model, WeightType type) {
  NamedTensors tensors;
  for (const auto& [name, parameter] : model.named_parameters()) {
    const StoredWeight stored = quantize(parameter, is_stored_smaller(name) ? type : WeightType::kF32);
    tensors.emplace_back(name, stored.values);
    if (stored.scales) tensors.emplace_back(scale_name(name), *stored.scales);
  }
  return tensors;
}

}  // namespace pmnet
