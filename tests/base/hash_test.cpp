#include "base/hash.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include "support/files.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

TEST(Hash, MatchesPublishedValues) {
  // The first outputs of splitmix64 seeded with 0, and FNV-1a with its usual basis.
  EXPECT_EQ(splitmix64(0), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(splitmix64(kGoldenRatio64), 0x6E789E6AA1B965F4u);
  EXPECT_EQ(fnv1a("", 0xCBF29CE484222325u), 0xCBF29CE484222325u);
  EXPECT_EQ(fnv1a("foobar", 0xCBF29CE484222325u), 0x85944171F73967E8u);
}

TEST(Hash, StreamInPiecesEqualsTheLibraryInOneCall) {
  std::string text;
  for (int i = 0; i < 3'000'000; ++i) text += static_cast<char>(splitmix64(i));
  for (const size_t size : {size_t{0}, size_t{1}, size_t{240}, size_t{241}, text.size()}) {
    Xxh3 hash;
    hash.update("dropped by reset", 5);
    hash.reset();
    for (size_t at = 0; at < size; at += 70'001) hash.update(text.data() + at, std::min<size_t>(70'001, size - at));
    const XXH128_hash_t wide = XXH3_128bits(text.data(), size);
    EXPECT_EQ(hash.digest64(), XXH3_64bits(text.data(), size));
    EXPECT_EQ(hash.digest64(), hash64(text.data(), size));
    EXPECT_EQ(hash.hex128(), text_hash(std::string_view(text).substr(0, size)));
    EXPECT_EQ(std::stoull(hash.hex128().substr(0, 16), nullptr, 16), wide.high64);
    EXPECT_EQ(std::stoull(hash.hex128().substr(16), nullptr, 16), wide.low64);
  }
  const TemporaryFolder folder;
  write_file(folder / "a", text);
  EXPECT_EQ(file_hash(folder / "a"), text_hash(text));
}

TEST(Hash, TextsAreSeparatedByTheirLengths) {
  Xxh3 one, other;
  one.update_text("ab");
  one.update_text("c");
  other.update_text("a");
  other.update_text("bc");
  EXPECT_NE(one.hex128(), other.hex128());
}

}  // namespace
}  // namespace pmnet
