// What each line of an endless stream costs: for logs, where an anomaly is a line that costs many bits.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "eval/scorer.h"

namespace pmnet {

struct LineScore {
  uint64_t line = 0;   // from 1
  uint64_t bytes = 0;  // the line end counts as one of them
  double bits = 0;
  std::string text;       // without the line end, if asked for
  bool text_cut = false;  // it was longer than what is kept
};

struct LineScorerOptions {
  MemorySwitches switches = {};
  bool independent = false;  // every line is a text of its own; else the memory of all lines before it is carried
  size_t keep_text = 0;      // bytes of each line
  int64_t chunk = 1024;      // bytes per pass
};

// Bytes in, in any pieces, scores out as soon as a line is complete. Nothing is held but the state of the past.
class LineScorer {
 public:
  using Take = std::function<void(const LineScore&)>;
  LineScorer(std::shared_ptr<const LanguageModel> model, const LineScorerOptions& options, Take take);

  void push(std::string_view bytes);
  // A whole line that may have line ends inside; one is put behind it.
  void push_line(std::string_view text);
  void finish();  // a last line without a line end

 private:
  void score(std::string_view bytes, bool lines_end_inside);
  void end_line();

  std::shared_ptr<const LanguageModel> model_;
  Scorer scorer_;
  LineScorerOptions options_;
  Take take_;
  LineScore current_;
};

}  // namespace pmnet
