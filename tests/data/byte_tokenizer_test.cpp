#include "data/byte_tokenizer.h"

#include <gtest/gtest.h>

#include "config/presets.h"
#include "support/errors.h"

namespace pmnet {
namespace {

std::string all_bytes() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  return bytes;
}

TEST(ByteTokenizer, Published) {
  const ByteTokenizer tokenizer(preset("119m"));
  EXPECT_EQ(tokenizer.encode("h\xC3\xA9", {.bos = true, .eos = true}),
            (std::vector<int64_t>{254, 'h', 0xC3, 0xA9, 255}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("h\xC3\xA9", {.bos = true, .eos = true})), "h\xC3\xA9");
  EXPECT_EQ(tokenizer.encode(""), std::vector<int64_t>{});
  EXPECT_EQ(tokenizer.vocab_size(), 384);
}

TEST(ByteTokenizer, TellsWhereSpecialBytesAre) {
  const ByteTokenizer published(254, 255);
  EXPECT_EQ(published.find_special_byte("plain text"), std::nullopt);
  EXPECT_EQ(published.find_special_byte("ab\xFF"), 2u);
  EXPECT_EQ(published.find_special_byte("\xFE"), 0u);
  EXPECT_EQ(published.decode(published.encode("a\xFE\xFF"
                                              "b")),
            "ab");  // which is why one wants to know
}

TEST(ByteTokenizer, BinaryVariantKeepsEveryByte) {
  PmnetConfig config = preset("tiny");
  config.bos_token_id = 256;
  config.eos_token_id = 257;
  const ByteTokenizer binary(config);
  EXPECT_EQ(binary.find_special_byte(all_bytes()), std::nullopt);
  const auto ids = binary.encode(all_bytes(), {.bos = true, .eos = true});
  EXPECT_EQ(ids.front(), 256);
  EXPECT_EQ(ids.back(), 257);
  EXPECT_EQ(binary.decode(ids), all_bytes());
}

TEST(ByteTokenizer, IdsThatAreNoBytes) {
  const ByteTokenizer tokenizer(254, 255);
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{'a', 256, 383, 'b'}), "ab");
  EXPECT_EQ(user_error_of([&] { tokenizer.decode(std::vector<int64_t>{384}); }),
            "the id 384 is outside the vocabulary, 0 to 383.");
  EXPECT_EQ(user_error_of([&] { tokenizer.decode(std::vector<int64_t>{-1}); }),
            "the id -1 is outside the vocabulary, 0 to 383.");
  EXPECT_TRUE(tokenizer.is_special(254));
  EXPECT_FALSE(tokenizer.is_byte(255));
  EXPECT_FALSE(tokenizer.is_byte(256));
}

TEST(ByteTokenizer, RefusesIdsOutsideTheVocabulary) {
  EXPECT_EQ(user_error_of([] { ByteTokenizer(256, 257, 257); }),
            "BOS and EOS must be ids of the vocabulary, 0 to 256, not 257.");
  EXPECT_EQ(user_error_of([] { ByteTokenizer(0, 1, 255); }),
            "a byte tokenizer needs a vocabulary of at least 256 ids, not 255.");
}

}  // namespace
}  // namespace pmnet
