#include "base/error.h"

#include "base/utf8.h"

namespace pmnet {

std::string escape_control(std::string_view text) {
  Utf8Stream stream;
  std::string valid = stream.push(text);
  valid += stream.finish();
  std::string escaped;
  escaped.reserve(valid.size());
  for (size_t i = 0; i < valid.size(); ++i) {
    const auto byte = static_cast<unsigned char>(valid[i]);
    // U+0080 to U+009F are control characters too; in UTF-8 they are C2 and a byte below A0.
    const bool c1 = byte == 0xC2 && i + 1 < valid.size() && static_cast<unsigned char>(valid[i + 1]) < 0xA0;
    if (c1) {
      escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(valid[++i]));
    } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      escaped += fmt::format("\\x{:02x}", byte);
    } else {
      escaped += valid[i];
    }
  }
  return escaped;
}

}  // namespace pmnet
