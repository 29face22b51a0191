// In-context recall in MAD's form: keys and values take turns, every key has one value throughout the row; from its
// second time on, the value is an answer.
//   BOS k1 v1 k2 v2 k1 -> v1 k3 v3 k2 -> v2
#pragma once
#include "experiments/framework/probe.h"

namespace pmnet {

// The load of a cell is the number of different keys in a row, drawn anew for each row from all there are, so that rows
// with few keys teach every key. Its length is that of the row without BOS.
struct InContextRecallTask : Task {
  int64_t keys = 8, values = 8;  // half of MAD's vocabulary each

  static constexpr int64_t kFirstValue = 128, kMaxValues = 126;

  TaskRow make_row(const TaskCell& cell, uint64_t key) const override;
  int64_t row_size(const TaskCell& cell) const override { return 1 + 2 * (cell.length / 2); }
  double chance() const override { return 1.0 / static_cast<double>(values); }
};

struct InContextRecallSettings : ProbeSettings {
  InContextRecallTask task;

  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
  std::vector<Course> courses() const override;
  ProbeText text() const override;
};

}  // namespace pmnet
