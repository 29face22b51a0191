#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace pmnet {

// XXH3-128 as 32 hex digits: finds damage, not malice.
std::string text_hash(std::string_view text);
std::string file_hash(const std::filesystem::path& file);

}  // namespace pmnet
