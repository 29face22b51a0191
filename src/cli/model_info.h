#pragma once
#include <string>

namespace pmnet {

// Prints the configuration, parameters by part, stored weights, memory tree, streaming state, cost per byte and
// training memory of a preset, a model folder or the newest checkpoint of a training run.
void print_model_info(const std::string& preset_or_folder);

void print_presets();

}  // namespace pmnet
