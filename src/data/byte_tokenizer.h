#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/model_config.h"

namespace pmnet {

// Bytes are their own ids. BOS and EOS are 254 and 255 as published, bytes that never occur in UTF-8, or 256 and 257
// for data that may hold any byte; the model's configuration says which.
class ByteTokenizer {
 public:
  ByteTokenizer(int64_t bos_id, int64_t eos_id, int64_t vocab_size = 384);
  explicit ByteTokenizer(const ModelConfig& config);

  int64_t bos_id() const { return bos_id_; }
  int64_t eos_id() const { return eos_id_; }
  int64_t vocab_size() const { return vocab_size_; }
  bool is_special(int64_t id) const { return id == bos_id_ || id == eos_id_; }
  bool is_byte(int64_t id) const { return id >= 0 && id < 256 && !is_special(id); }

  struct Marks {
    bool bos = false;
    bool eos = false;
  };
  std::vector<int64_t> encode(std::string_view bytes, Marks marks) const;
  std::vector<int64_t> encode(std::string_view bytes) const { return encode(bytes, Marks{}); }

  // BOS, EOS and the ids from 256 up, which stand for no byte, are dropped. Ids outside the vocabulary are refused.
  std::string decode(std::span<const int64_t> ids) const;

  // Where the text holds a byte that this tokenizer uses as BOS or EOS: such a text does not survive the round trip.
  std::optional<size_t> find_special_byte(std::string_view bytes) const;

 private:
  int64_t bos_id_;
  int64_t eos_id_;
  int64_t vocab_size_;
};

}  // namespace pmnet
