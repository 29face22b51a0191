#pragma once
#include <cstdio>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"

namespace pmnet {

// One line that says how far things are: redrawn in place on a terminal, else a plain line every few seconds.
class ProgressLine {
 public:
  struct Options {
    std::FILE* out = stderr;
    std::optional<bool> terminal;  // unset: ask the operating system
    double redraw_seconds = 0.1;   // on a terminal
    double line_seconds = 5;       // elsewhere
    std::function<double()> clock = steady_seconds;
  };
  ProgressLine();
  explicit ProgressLine(Options options);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows the text if it is time for it; `text` is only called then.
  void update(const std::function<std::string()>& text);
  // A line that stays, above the progress line.
  void print(const std::string& line);
  // Leaves `text` as the last state; empty removes the line.
  void finish(const std::string& text = "");

 private:
  void draw(const std::string& text);
  void erase();

  Options options_;
  bool terminal_;
  bool drawn_ = false;
  double next_time_;
};

// Rate and time left of something that goes from `done` to `total`, judged by the last half minute. A resumed run
// starts with what it had done before, which does not count as speed.
class RateMeter {
 public:
  explicit RateMeter(double total, double done = 0, std::function<double()> clock = steady_seconds);
  void set_done(double done);
  double rate() const { return rate_; }  // per second
  double seconds_left() const;           // negative: unknown
  double elapsed() const { return clock_() - start_; }
  double share() const { return total_ > 0 ? done_ / total_ : 0; }

 private:
  double total_;
  std::function<double()> clock_;
  double start_, done_, rate_ = 0;
  double window_start_, window_done_;  // the stretch the rate is taken over
  double next_start_, next_done_;
};

}  // namespace pmnet
