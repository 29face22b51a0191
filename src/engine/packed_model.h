// Inference with smaller weights: every linear layer of a model held as bf16 or int8.
#pragma once
#include <string>

#include "model/language_model.h"
#include "ops/packed_linear.h"

namespace pmnet {

// "float32", "bf16" or "int8"; UserError otherwise.
kernels::WeightType parse_weight_type(const std::string& name);

// Rounds the weights of every linear layer to what a file of that type holds; norms, biases and embeddings stay
// float32. The model can then be saved and packed.
void round_weights(LanguageModel& model, kernels::WeightType type);

// Makes ready for inference what is bf16 or int8. The model can no longer be trained or saved.
void pack_weights(LanguageModel& model);

}  // namespace pmnet
