// Induction heads (Mamba, appendix E.1): a special symbol is followed by some symbol once, among random ones; whenever
// it comes again, the same symbol follows.
//   BOS r r S x r r r r r S -> x
#pragma once
#include "experiments/framework/probe.h"

namespace pmnet {

// The length of a cell is that of the row without BOS, an even number. Its load is the number of questions, the last at
// the end of the row and the others between.
struct InductionTask : Task {
  int64_t symbols = 16;  // the last is the special one

  TaskRow make_row(const TaskCell& cell, uint64_t key) const override;
  int64_t row_size(const TaskCell& cell) const override { return 1 + cell.length; }
  double chance() const override { return 1.0 / static_cast<double>(symbols - 1); }
};

struct InductionSettings : ProbeSettings {
  InductionTask task;
  int64_t questions = 1;  // of rows in training, besides those with one

  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
  std::vector<Course> courses() const override;
  ProbeText text() const override;
};

}  // namespace pmnet
