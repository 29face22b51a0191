#pragma once
#include <string>

namespace pmnet {

// Prints shapes, parameters by part, memory tree, streaming state, cost per byte and training memory of a preset or of
// the checkpoint in a folder.
void print_model_info(const std::string& preset_or_dir);

}  // namespace pmnet
