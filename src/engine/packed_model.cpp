#include "engine/packed_model.h"

#include <ATen/ATen.h>

#include "base/error.h"

namespace pmnet {

kernels::WeightType parse_weight_type(const std::string& name) {
  if (name == "float32") return kernels::WeightType::kF32;
  if (name == "bf16") return kernels::WeightType::kBF16;
  if (name == "int8") return kernels::WeightType::kInt8;
  fail("unknown weight type '{}'; expected float32, bf16 or int8", name);
}

void round_weights(LanguageModel& model, kernels::WeightType type) {
  ParameterVisitor visitor;
  visitor.linear = [&](const std::string&, Linear& layer) {
    const ops::StoredWeight stored = ops::quantize_weight(layer.weight, type);
    layer.weight = stored.values;
    layer.weight_scale = stored.scales.value_or(Tensor());
  };
  model.visit(visitor);
}

void pack_weights(LanguageModel& model) {
  ParameterVisitor visitor;
  visitor.linear = [&](const std::string&, Linear& layer) {
    if (layer.packed || layer.weight.scalar_type() == at::kFloat) return;
    const bool scaled = layer.weight_scale.defined();
    layer.packed = ops::pack_weight({layer.weight, scaled ? ops::OptTensor(layer.weight_scale) : std::nullopt});
    layer.weight = layer.weight_scale = Tensor();
  };
  model.visit(visitor);
}

}  // namespace pmnet
