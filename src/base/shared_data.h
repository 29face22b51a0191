// Files that come with the program: recipes and the shipped model.
#pragma once
#include <filesystem>
#include <optional>

namespace pmnet {

// `inside` is relative, such as recipes/train. Looked for under PMNET_HOME, which the launcher sets, then above the
// program: installed (share/pmnet) or built in the source tree.
std::optional<std::filesystem::path> find_shared(const std::filesystem::path& inside);

}  // namespace pmnet
