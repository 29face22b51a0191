#include "eval/line_scores.h"

#include <algorithm>

#include "eval/scorer.h"

namespace pmnet {

LineScorer::LineScorer(const Session& start, const LineScorerOptions& options, LineSink sink)
    : start_(start.fork()), session_(start.fork()), options_(options), sink_(std::move(sink)) {
  score_next(start_, "");  // reads BOS once, not for every line
  session_ = start_.fork();
  current_.line = 1;
}

void LineScorer::push(std::string_view bytes) {
  while (!bytes.empty()) {
    size_t size = std::min(bytes.size(), static_cast<size_t>(options_.chunk));
    // With the memory carried, a pass may run across lines; else it ends with its line.
    const size_t line_end = options_.independent ? bytes.find('\n') : bytes.npos;
    if (line_end != bytes.npos) size = std::min(size, line_end + 1);
    score(bytes.substr(0, size), /*lines_end_inside=*/true);
    bytes.remove_prefix(size);
  }
}

void LineScorer::push_line(std::string_view text) {
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), static_cast<size_t>(options_.chunk))))
    score(text.substr(0, static_cast<size_t>(options_.chunk)), /*lines_end_inside=*/false);
  score("\n", /*lines_end_inside=*/true);
}

void LineScorer::score(std::string_view bytes, bool lines_end_inside) {
  const std::vector<double> bits = score_next(session_, bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    ++current_.bytes;
    current_.bits += bits[i];
    if (lines_end_inside && bytes[i] == '\n') {
      end_line();
    } else if (current_.text.size() < options_.keep_text) {
      current_.text += bytes[i];
    } else {
      current_.text_cut = options_.keep_text > 0;
    }
  }
}

void LineScorer::end_line() {
  sink_(current_);
  const uint64_t next = current_.line + 1;
  current_ = LineScore();
  current_.line = next;
  if (options_.independent) session_ = start_.fork();
}

void LineScorer::finish() {
  if (current_.bytes > 0) end_line();
}

}  // namespace pmnet
