// The copy task: N random bytes, a delimiter, the same N bytes again, which are the answers.
//   BOS x1 ... xN delimiter x1 ... xN
#pragma once
#include "experiments/framework/task.h"

namespace pmnet {

// The length of a cell is N.
struct CopyTask : Task {
  int64_t delimiter = 255;
  int64_t symbols = 16;  // different bytes, from 0
  static constexpr int64_t kMaxSymbols = 254;

  TaskRow make_row(const TaskCell& cell, uint64_t key) const override;
  int64_t row_size(const TaskCell& cell) const override { return 2 * cell.length + 2; }
  double chance() const override { return 1.0 / static_cast<double>(symbols); }
};

}  // namespace pmnet
