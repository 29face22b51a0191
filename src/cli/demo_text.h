#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pmnet {

struct DemoText {
  std::string bytes;
  std::string origin;  // for people
};

// The text of the file (any format that training reads); without one the Jargon File where Debian's jargon-text has
// put it, else synthetic stories. At most `max_bytes` of it.
DemoText find_demo_text(const std::string& file, uint64_t max_bytes);

// Size of the text after a compressor such as {"gzip", "-9"}; nothing when that is not installed.
std::optional<uint64_t> compressed_bytes(const std::vector<std::string>& command, std::string_view text);

}  // namespace pmnet
