// The cost of each line of an endless stream: for logs, where an anomaly is a line that costs many bits.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "engine/session.h"

namespace pmnet {

struct LineScore {
  uint64_t line = 0;   // from 1
  uint64_t bytes = 0;  // the line end counts as one of them
  double bits = 0;
  std::string text;       // without the line end, if asked for
  bool text_cut = false;  // it was longer than what is kept
};

struct LineScorerOptions {
  bool independent =
      false;             // every line starts from the memory at the start; else that of all earlier lines is carried
  size_t keep_text = 0;  // bytes of each line
  int64_t chunk = 1024;  // bytes per pass
};

// Bytes in, in any pieces; scores out as soon as a line is complete. Memory use is constant.
class LineScorer {
 public:
  using LineSink = std::function<void(const LineScore&)>;
  // `start` is a fresh session, or one with a restored memory.
  LineScorer(const Session& start, const LineScorerOptions& options, LineSink sink);

  void push(std::string_view bytes);
  // A whole line that may have line ends inside; one is appended.
  void push_line(std::string_view text);
  void finish();  // ends a last line without a line end

  const Session& session() const { return session_; }  // its memory after the last byte

 private:
  void score(std::string_view bytes, bool lines_end_inside);
  void end_line();

  Session start_, session_;
  LineScorerOptions options_;
  LineSink sink_;
  LineScore current_;
};

}  // namespace pmnet
