#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/model_config.h"

namespace pmnet {

// Named PMNet shapes: 119m and 30m are the paper's, the others are scaled down for CPUs, named after their parameters.
const std::vector<std::string>& preset_names();
std::optional<PmnetConfig> find_preset(std::string_view name);

// Throws UserError naming the closest preset.
PmnetConfig preset(std::string_view name);

// Baselines with a matching parameter count: within 2% of the given PMNet's. The Transformer has as many layers as it
// unless `layers` says how many.
TransformerConfig transformer_like(const PmnetConfig& model, int64_t layers = 0);
MambaConfig mamba_like(const PmnetConfig& model);
// The given PMNet itself or a baseline of the other architectures.
ModelConfig like(Architecture architecture, const PmnetConfig& model);

}  // namespace pmnet
