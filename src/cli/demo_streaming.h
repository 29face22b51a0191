#pragma once
#include <filesystem>
#include <string_view>

#include "train/open_model.h"

namespace pmnet {

// Shows that a model reads a text alike in one pass and in chunks of any size, that its memory does not grow, and that
// a memory saved to `memory_file` goes on where it stopped. False when something differs by more than rounding.
bool show_streaming(const OpenedModel& model, std::string_view text, const std::filesystem::path& memory_file);

}  // namespace pmnet
