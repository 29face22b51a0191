// The copy task: N random bytes, a delimiter, the same N bytes again.
//   BOS x1 ... xN delimiter x1 ... xN
// Only the copy is scored. Everything is a function of (seed, sample).
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "data/batcher.h"
#include "model/language_model.h"

namespace pmnet {

struct CopyTask {
  int64_t bos = 254, delimiter = 255;
  int64_t symbols = 16;  // different bytes, from 0; at most 254
  static constexpr int64_t kMaxSymbols = 254;
  double chance() const { return 1.0 / static_cast<double>(symbols); }
};

// Rows with N drawn from [least, most].
Batch make_copy_batch(const CopyTask& task, int64_t least, int64_t most, uint64_t seed, int64_t step, int64_t rows);

struct CopyScore {
  double token_accuracy = 0;     // share of bytes that the model finds likeliest, the true ones being fed
  double sequence_accuracy = 0;  // share of copies without a single mistake
  double loss = 0;               // nats per byte of the copy
};
// Copies of one length. `between` is called now and then and may throw.
CopyScore score_copy(const LanguageModel& model, const CopyTask& task, int64_t length, int64_t samples, uint64_t seed,
                     const std::function<void()>& between = {});

}  // namespace pmnet
