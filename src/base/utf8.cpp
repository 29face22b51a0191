#include "base/utf8.h"

namespace pmnet {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  std::string text;
  text.reserve(held_.size() + bytes.size());
  for (const char byte : bytes) push_byte(static_cast<unsigned char>(byte), text);
  return text;
}

std::string Utf8Stream::finish() {
  std::string text;
  replace_held(text);
  return text;
}

void Utf8Stream::push_byte(unsigned char byte, std::string& text) {
  if (!held_.empty() && (byte < next_low_ || byte > next_high_)) replace_held(text);
  if (held_.empty()) return start_sequence(byte, text);
  held_ += static_cast<char>(byte);
  next_low_ = 0x80;
  next_high_ = 0xBF;
  if (held_.size() == expected_) {
    text += held_;
    held_.clear();
  }
}

void Utf8Stream::start_sequence(unsigned char lead, std::string& text) {
  if (lead < 0x80) {
    text += static_cast<char>(lead);
    return;
  }
  if (lead < 0xC2 || lead > 0xF4) {  // a continuation without a beginning, or a lead that no code point has
    text += kReplacement;
    return;
  }
  held_ = static_cast<char>(lead);
  expected_ = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  next_low_ = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  next_high_ = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
}

void Utf8Stream::replace_held(std::string& text) {
  if (!held_.empty()) text += kReplacement;
  held_.clear();
}

}  // namespace pmnet
