#include "data/byte_tokenizer.h"

#include "base/error.h"

namespace pmnet {

ByteTokenizer::ByteTokenizer(int64_t bos_id, int64_t eos_id, int64_t vocab_size)
    : bos_id_(bos_id), eos_id_(eos_id), vocab_size_(vocab_size) {
  if (vocab_size < 256) fail("a byte tokenizer needs a vocabulary of at least 256 ids, not {}.", vocab_size);
  for (const int64_t id : {bos_id, eos_id}) {
    if (id < 0 || id >= vocab_size) {
      fail("BOS and EOS must be ids of the vocabulary, 0 to {}, not {}.", vocab_size - 1, id);
    }
  }
}

ByteTokenizer::ByteTokenizer(const ModelConfig& config)
    : ByteTokenizer(std::visit(
          [](const auto& c) { return ByteTokenizer(c.bos_token_id, c.eos_token_id, c.vocab_size); }, config)) {}

std::vector<int64_t> ByteTokenizer::encode(std::string_view bytes, Marks marks) const {
  std::vector<int64_t> ids;
  ids.reserve(bytes.size() + 2);
  if (marks.bos) ids.push_back(bos_id_);
  for (const char byte : bytes) ids.push_back(static_cast<unsigned char>(byte));
  if (marks.eos) ids.push_back(eos_id_);
  return ids;
}

std::string ByteTokenizer::decode(std::span<const int64_t> ids) const {
  std::string bytes;
  bytes.reserve(ids.size());
  for (const int64_t id : ids) {
    if (id < 0 || id >= vocab_size_) fail("the id {} is outside the vocabulary, 0 to {}.", id, vocab_size_ - 1);
    if (is_byte(id)) bytes.push_back(static_cast<char>(id));
  }
  return bytes;
}

std::optional<size_t> ByteTokenizer::find_special_byte(std::string_view bytes) const {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (is_special(static_cast<unsigned char>(bytes[i]))) return i;
  }
  return std::nullopt;
}

}  // namespace pmnet
