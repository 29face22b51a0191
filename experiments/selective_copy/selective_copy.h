// Selective copying in MAD's form: symbols at random places among blanks, a mark, the symbols in their order.
//   BOS . a . . b . c . . mark -> a b c
#pragma once
#include "experiments/framework/probe.h"

namespace pmnet {

// The load of a cell is the number of symbols to copy, its length that of the row without BOS.
struct SelectiveCopyTask : Task {
  int64_t symbols = 16;  // the last two are the blank and the mark

  TaskRow make_row(const TaskCell& cell, uint64_t key) const override;
  int64_t row_size(const TaskCell& cell) const override { return 1 + cell.length; }
  double chance() const override { return 1.0 / static_cast<double>(symbols - 2); }
};

struct SelectiveCopySettings : ProbeSettings {
  SelectiveCopyTask task;

  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
  std::vector<Course> courses() const override;
  ProbeText text() const override;
};

}  // namespace pmnet
