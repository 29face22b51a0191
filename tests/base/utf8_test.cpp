#include "base/utf8.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

namespace pmnet {
namespace {

// Written the other way round than the code under test: encodes every code point that a lead could mean and compares.
std::string encode(uint32_t c) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

// The code points of a text, or nothing when it is not UTF-8.
std::optional<std::vector<uint32_t>> decode(const std::string& text) {
  std::vector<uint32_t> points;
  for (size_t i = 0; i < text.size();) {
    const unsigned char lead = text[i];
    const size_t length = lead < 0x80 ? 1 : (lead >> 5) == 6 ? 2 : (lead >> 4) == 14 ? 3 : (lead >> 3) == 30 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return std::nullopt;
    uint32_t point = length == 1 ? lead : lead & (0xFF >> (length + 1));
    for (size_t k = 1; k < length; ++k) point = point << 6 | (text[i + k] & 0x3F);
    if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return std::nullopt;
    if (encode(point) != text.substr(i, length)) return std::nullopt;
    points.push_back(point);
    i += length;
  }
  return points;
}

std::string whole(const std::string& bytes) {
  Utf8Stream stream;
  const std::string text = stream.push(bytes);
  return text + stream.finish();
}

// Random bytes with enough leads and continuations among them to get deep into sequences.
std::string random_bytes(std::mt19937& random) {
  static const std::vector<unsigned char> kTelling = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                                      0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                                      0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFE, 0xFF};
  std::string bytes;
  const size_t size = random() % 24;
  while (bytes.size() < size)
    bytes += static_cast<char>(random() % 2 ? random() % 256 : kTelling[random() % kTelling.size()]);
  return bytes;
}

TEST(Utf8Stream, KeepsEveryCodePoint) {
  for (uint32_t point = 0; point <= 0x10FFFF; ++point) {
    if (point >= 0xD800 && point < 0xE000) continue;
    const std::string bytes = encode(point);
    ASSERT_EQ(whole(bytes), bytes) << point;
  }
}

TEST(Utf8Stream, ReplacesEachLongestBeginningOnce) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(whole("a\x80z"), "a" + r + "z");
  EXPECT_EQ(whole("\xC0\xAF"), r + r);                  // overlong '/'
  EXPECT_EQ(whole("\xE0\x80\xAF"), r + r + r);          // the same in three bytes
  EXPECT_EQ(whole("\xED\xA0\x80"), r + r + r);          // a surrogate
  EXPECT_EQ(whole("\xF4\x90\x80\x80"), r + r + r + r);  // above U+10FFFF
  EXPECT_EQ(whole("\xE2\x82"), r);                      // the beginning of a euro sign
  EXPECT_EQ(whole("\xF0\x9F\x98"
                  "A"),
            r + "A");
  EXPECT_EQ(whole("\xE2\x82\xE2\x82\xAC"), r + "\xE2\x82\xAC");
  EXPECT_EQ(whole("\xFE\xFF"), r + r);
}

TEST(Utf8Stream, GivesTheSameValidTextAtEverySplitPoint) {
  std::mt19937 random(1);
  for (int round = 0; round < 10'000; ++round) {
    const std::string bytes = random_bytes(random);
    const std::string text = whole(bytes);
    ASSERT_TRUE(decode(text)) << testing::PrintToString(bytes);
    for (size_t cut = 0; cut <= bytes.size(); ++cut) {
      Utf8Stream stream;
      const std::string before = stream.push(bytes.substr(0, cut));
      ASSERT_TRUE(decode(before)) << testing::PrintToString(bytes) << " cut at " << cut;
      ASSERT_LE(stream.held_bytes(), 3u);
      const std::string after = stream.push(bytes.substr(cut));
      ASSERT_TRUE(decode(after)) << testing::PrintToString(bytes) << " cut at " << cut;
      ASSERT_EQ(before + after + stream.finish(), text) << testing::PrintToString(bytes) << " cut at " << cut;
    }
  }
}

TEST(Utf8Stream, LeavesValidTextAloneByteByByte) {
  const std::string text = "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x98\x80 \xED\x9F\xBF \xF4\x8F\xBF\xBF";
  Utf8Stream stream;
  std::string out;
  for (const char byte : text) out += stream.push({&byte, 1});
  EXPECT_EQ(out, text);
  EXPECT_EQ(stream.held_bytes(), 0u);
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
}  // namespace pmnet
