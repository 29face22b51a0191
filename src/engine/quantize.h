// Smaller weights for inference: the matrices of all linear layers rounded to bf16 or int8.
#pragma once
#include <string>

#include "kernels/gemv/gemv.h"
#include "model/language_model.h"
#include "model/tensors.h"

namespace pmnet {

using kernels::WeightType;

// "float32", "bf16" or "int8"; UserError otherwise.
WeightType parse_weight_type(const std::string& name);

// Int8 has one scale per row, the largest magnitude of the row / 127.
StoredWeight quantize(const Tensor& weight, WeightType type);

// All parameters of a model as a file of that type holds them, scales included; norms, biases and embeddings stay
// float32.
NamedTensors quantize_weights(const LanguageModel& model, WeightType type);

}  // namespace pmnet
