#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pmnet {

struct DemoText {
  std::string bytes;
  std::string origin;  // for people
};

// The text of the file (any format that training reads); else the Jargon File where Debian's jargon-text put it; else
// tales of our own. At most `max_bytes` of it.
DemoText find_demo_text(const std::string& file, uint64_t max_bytes);

// How many bytes a compressor makes of these files, one behind the other; nothing when it is not installed. The command
// reads standard input and writes standard output, such as "gzip -9".
std::optional<uint64_t> compressed_bytes(const std::string& command, const std::vector<std::filesystem::path>& files);

}  // namespace pmnet
