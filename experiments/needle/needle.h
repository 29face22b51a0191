// A needle in a text: RULER's niah_single, by bytes. A sentence that gives a word its number stands somewhere in a long
// text; the question at the end repeats it up to the number.
#pragma once
#include "experiments/framework/probe.h"

namespace pmnet {

// The load of a cell is the number of needles, one of which is asked for; its length is that of the text around them.
struct NeedleTask : Task {
  int64_t digits = 3;                       // of a number, all of them graded
  int64_t questions = 1;                    // more, for training: see make_row
  std::shared_ptr<const std::string> text;  // rows take pieces of it

  // With several questions, a row has that many, or half as many, down to one, and each may be cut to its last half, a
  // quarter, down to 8 bytes: a number is first kept over a few bytes and then over the 140 of RULER's question.
  TaskRow make_row(const TaskCell& cell, uint64_t key) const override;
  int64_t row_size(const TaskCell& cell) const override;
  double chance() const override { return 0.1; }

  static std::string needle(const std::string& word, const std::string& number);
  static std::string question(const std::string& word);
  static int64_t most_needles();
};

struct NeedleSettings : ProbeSettings {
  NeedleTask task;
  std::vector<std::string> files;  // texts; none: synthetic stories
  std::string text_field = "text";

  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
  std::vector<Course> courses() const override;
  ProbeText text() const override;
};

}  // namespace pmnet
