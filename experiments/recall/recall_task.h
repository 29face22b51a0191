// The recall task: facts (key, value), filler, one of the keys; the answer is its value.
//   BOS k1 v1 k2 v2 ... f f f f ... f k  ->  v
// Everything is a function of (seed, sample), so all models see the same bytes.
#pragma once
#include <cstdint>
#include <vector>

#include "data/batcher.h"
#include "model/language_model.h"
#include "train/stop_check.h"

namespace pmnet {

struct RecallTask {
  int64_t bos = 254;
  int64_t keys = 16;     // letters that facts are about: at most 26, from 'A'
  int64_t values = 16;   // answers: at most 16, from '0'
  int64_t fillers = 26;  // letters in between: at most 26, from 'a'

  static constexpr int64_t kFirstKey = 'A', kFirstValue = '0', kFirstFiller = 'a';
  static constexpr int64_t kMaxKeys = 26, kMaxValues = 16, kMaxFillers = 26;
  double chance() const { return 1.0 / static_cast<double>(values); }
};

struct RecallSample {
  std::vector<int64_t> facts;  // k1 v1 k2 v2 ...; keys are distinct
  int64_t question = 0, answer = 0;
};
RecallSample make_recall_sample(const RecallTask& task, int64_t num_facts, uint64_t key);
int64_t recall_filler(const RecallTask& task, uint64_t key, int64_t position);

// Rows with a number of facts drawn from `facts` and a distance drawn from [least, most]. Only the answer is scored.
struct RecallRange {
  std::vector<int64_t> facts = {1};
  int64_t least = 0, most = 200;
  bool log_uniform = false;  // each doubling of the distance equally likely, instead of each byte
};
Batch make_recall_batch(const RecallTask& task, const RecallRange& range, uint64_t seed, int64_t step, int64_t rows);

// The share of right answers, and the loss, after each of the distances (ascending): streams are read once, and each
// distance is a fork of their state that is asked. Memory does not grow with the distance.
struct RecallScore {
  std::vector<int64_t> right;  // per distance, out of `streams`
  std::vector<double> loss;    // nats, mean
  int64_t streams = 0;
  double accuracy(size_t distance) const {
    return static_cast<double>(right.at(distance)) / static_cast<double>(streams);
  }
};
struct RecallQuestion {
  int64_t facts = 1;
  std::vector<int64_t> distances;
  int64_t streams = 64;
  uint64_t seed = 0;
  int64_t chunk = 512;
};
RecallScore score_recall(const LanguageModel& model, const MemorySwitches& switches, const RecallTask& task,
                         const RecallQuestion& question, const std::function<void(int64_t position)>& between = {});

}  // namespace pmnet
