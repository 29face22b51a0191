#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace pmnet {

// Any bytes in, in any pieces, valid UTF-8 out: a byte-level model need not write any, and stops where it likes. A
// sequence that is not complete yet is held back, at most 3 bytes; what cannot become one is replaced by U+FFFD, one
// for each longest beginning of a sequence. The text is the same however the bytes are cut into pieces.
class Utf8Stream {
 public:
  // The text that these bytes complete.
  std::string push(std::string_view bytes);
  // The end of the stream: what is still held back was never completed.
  std::string finish();
  size_t held_bytes() const { return held_.size(); }

 private:
  void push_byte(unsigned char byte, std::string& text);
  void start_sequence(unsigned char lead, std::string& text);
  void replace_held(std::string& text);

  std::string held_;     // a sequence's beginning
  size_t expected_ = 0;  // bytes of the whole sequence
  // What the next byte must be. Narrower than 80..BF after some leads: no overlong forms, no surrogates, nothing above
  // U+10FFFF.
  unsigned char next_low_ = 0x80, next_high_ = 0xBF;
};

}  // namespace pmnet
