#pragma once
#include <filesystem>
#include <string_view>

#include "train/open_model.h"

namespace pmnet {

// Prints that a model reads a text in one pass and in chunks of any size with the same result, that its memory does not
// grow, and that a memory saved to `memory_file` continues exactly. False when something differs by more than rounding.
bool show_streaming(const OpenedModel& model, std::string_view text, const std::filesystem::path& memory_file);

}  // namespace pmnet
