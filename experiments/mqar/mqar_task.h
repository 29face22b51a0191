// Multi-query associative recall: pairs (key, value), then some of the keys, which are answered by their values.
//   BOS k1 v1 k2 v2 f f f f f k2 -> v2 k1 -> v1          gap: filler, then one question after another
//   BOS k1 v1 k2 v2 k1 -> v1 f f k2 -> v2 f f f f f      Zoology's form: questions at distances of a power law
#pragma once
#include "experiments/framework/task.h"

namespace pmnet {

// The load of a cell is the number of pairs. Its length is the number of filler bytes between pairs and questions; in
// Zoology's form, that of the whole row without BOS.
struct MqarTask : Task {
  int64_t keys = 16, values = 16, fillers = 26;  // different ones
  int64_t questions = 0;                         // keys that are asked in each row; 0: all of them
  bool zoology = false;

  static constexpr int64_t kFirstFiller = 0, kFirstKey = 32, kFirstValue = 128;
  static constexpr int64_t kMaxFillers = 32, kMaxKeys = 96, kMaxValues = 126;

  TaskRow make_row(const TaskCell& cell, uint64_t key) const override;
  int64_t row_size(const TaskCell& cell) const override;
  double chance() const override { return 1.0 / static_cast<double>(values); }

 private:
  int64_t asked(const TaskCell& cell) const;
};

}  // namespace pmnet
