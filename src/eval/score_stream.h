// `pmnet score`: lines or JSON records in, from a file, a pipe or standard input; one line of JSON out for each.
#pragma once
#include <optional>
#include <string>

#include "eval/line_scores.h"

namespace pmnet {

struct ScoreStreamOptions {
  std::string file = "-";           // "-": standard input
  std::string field;                // not empty: the input is JSON records, score this field of each
  bool skip_bad = false;            // a malformed record is scored as an empty line instead of an error
  std::optional<double> threshold;  // bits; print only the lines that cost at least this
  bool mark = false;                // print all lines, with "anomaly" true from the threshold on
  bool text = false;                // print the text too...
  int64_t text_bytes = 4096;        // ...up to so many bytes of it
  LineScorerOptions lines;
};

// UserError for options that contradict each other.
void check(const ScoreStreamOptions& options);

// Reads to the end of the input, or until the output is closed. Returns the session after the last line.
Session score_stream(const Session& start, const ScoreStreamOptions& options);

}  // namespace pmnet
