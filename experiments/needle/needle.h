// A needle in a text: RULER's niah_single, by bytes. A sentence that gives a word its number stands somewhere in a long
// text; the question at the end repeats it up to the number.
#pragma once
#include "experiments/framework/probe.h"

namespace pmnet {

// The load of a cell is the number of needles, one of which is asked for; its length is that of the text around them.
//
// Around a text that is shorter than a sentence, only so much of the sentence's end stands: a curriculum can begin with
// a number that is kept over a few bytes. From texts of 150 bytes on, rows are RULER's.
struct NeedleTask : Task {
  int64_t digits = 3;                       // of a number, all of them graded
  std::shared_ptr<const std::string> text;  // rows take pieces of it

  TaskRow make_row(const TaskCell& cell, uint64_t key) const override;
  int64_t row_size(const TaskCell& cell) const override;
  double chance() const override { return 0.1; }

  static std::string needle(const std::string& word, const std::string& number);
  static std::string question(const std::string& word);
  // Bytes that are cut from the beginning of the sentence. The word stays, but in the question for an only needle.
  static int64_t needle_cut(const TaskCell& cell);
  static int64_t question_cut(const TaskCell& cell);
  static int64_t most_needles();

 private:
  static int64_t cut(const std::string& sentence, const TaskCell& cell, int64_t least);
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
