#include "base/pickle.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace pmnet {

bool looks_like_pickle(std::string_view head) {
  if (head.starts_with("PK\x03\x04")) return head.find("data.pkl") != head.npos;
  // PROTO 2 to 5, then an opcode that pickles begin with: LONG1, FRAME, EMPTY_DICT, EMPTY_LIST, MARK, GLOBAL.
  return head.size() >= 3 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5 &&
         std::string_view("\x8a\x95}](c").find(head[2]) != std::string_view::npos;
}

bool has_pickle_name(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(std::initializer_list<std::string_view>{".pt", ".pth", ".pkl", ".pickle", ".ckpt"},
                             [&](std::string_view suffix) { return lower.ends_with(suffix); });
}

}  // namespace pmnet
