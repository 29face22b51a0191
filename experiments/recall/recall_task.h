// The recall task: facts (key, value), filler, some of the keys; the answers are their values.
//   BOS k1 v1 k2 v2 ... f f f f ... f k -> v k -> v
#pragma once
#include "experiments/framework/task.h"

namespace pmnet {

// The load of a cell is the number of facts, its length the number of filler bytes.
struct RecallTask : Task {
  int64_t bos = 254;
  int64_t keys = 16;      // letters that facts are about, from 'A'
  int64_t values = 16;    // answers, from '0'
  int64_t fillers = 26;   // letters in between, from 'a'
  int64_t questions = 1;  // keys that are asked in each row; 0: all of them

  static constexpr int64_t kFirstKey = 'A', kFirstValue = '0', kFirstFiller = 'a';
  static constexpr int64_t kMaxKeys = 26, kMaxValues = 16, kMaxFillers = 26;

  TaskRow make_row(const TaskCell& cell, uint64_t key) const override;
  int64_t row_size(const TaskCell& cell) const override;
  double chance() const override { return 1.0 / static_cast<double>(values); }

 private:
  int64_t asked(const TaskCell& cell) const;
};

}  // namespace pmnet
