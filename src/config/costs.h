#pragma once
#include <string>
#include <vector>

#include "config/model_config.h"

namespace pmnet {

// What a model of some configuration costs, from its sizes alone. Amounts are doubles: exact below 2^53 and unable to
// overflow, so that problems() can ask before anything is known to be sound.
struct CostPart {
  std::string name;
  double amount;
};

double total(const std::vector<CostPart>& parts);

// Weights and biases; a tied head counts once.
std::vector<CostPart> parameter_parts(const ModelConfig& config);
int64_t parameter_count(const ModelConfig& config);

// Multiply-adds of one token's forward pass in a text of `context` tokens, each identity of
// docs/explanation/equations.md used: phases enter the read once per level, values are aggregated before their
// projection. A full-attention layer sees context / 2 tokens on average, a sliding one its window.
std::vector<CostPart> multiply_adds_per_token(const ModelConfig& config, int64_t context);

// Forward and backward are three times the forward, a multiply-add is two operations; one token is one byte.
double training_flop_per_byte(const ModelConfig& config, int64_t context);

// What one sequence keeps after `position` tokens: float32 keys and values, 8-byte phases, Mamba's two states.
std::vector<CostPart> streaming_state_bytes(const ModelConfig& config, int64_t position);

// Float32 weights, gradients and the two moments of AdamW, plus the activations kept for the backward pass. An
// estimate, good to a factor of two: it counts the tensors named in the layer, not allocator overhead or workspaces.
std::vector<CostPart> training_memory_bytes(const ModelConfig& config, int64_t batch, int64_t context);

}  // namespace pmnet
