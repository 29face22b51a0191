// LOGITS -> one byte, or the end of the text.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/byte_tokenizer.h"

namespace pmnet {

struct SamplingSettings {
  double temperature = 1.0;  // 0: always the likeliest byte
  int64_t top_k = 0;         // only the k likeliest; 0: all
  double top_p = 1.0;        // only the likeliest that together have this probability
  uint64_t seed = 0;

  // One sentence per problem, by the names of the program's options; empty when usable.
  std::vector<std::string> problems() const;
};

class Sampler {
 public:
  // Throws UserError with every problem of the settings.
  Sampler(const SamplingSettings& settings, const ByteTokenizer& tokenizer);

  // A byte or EOS; ids that stand for neither are never chosen. `position` in the sequence is the only other input,
  // so that a sequence continued from a saved memory continues as if it had never stopped, whatever runs beside it.
  int64_t sample(std::span<const float> logits, uint64_t position) const;

 private:
  SamplingSettings settings_;
  ByteTokenizer tokenizer_;
};

}  // namespace pmnet
