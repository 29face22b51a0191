// metrics.jsonl: one JSON object per line, {"step": 10, "train/loss": 2.31, ...}. Names with a slash are groups.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"

namespace pmnet {

using Metrics = std::vector<std::pair<std::string, double>>;

// Tells the user once that a log cannot be written; logging must never end a training run.
class WarnOnce {
 public:
  using Sink = std::function<void(const std::string&)>;
  explicit WarnOnce(Sink sink = {});  // default: a line on stderr
  void operator()(const std::string& sentence);

 private:
  Sink sink_;
  bool warned_ = false;
};

class MetricsLog {
 public:
  // Appends to `path`. Points after `last_step` are dropped first, so that curves do not fold back on themselves when a
  // run resumes from an earlier step; -1 starts anew. Throws only here, before training has begun.
  MetricsLog(const std::string& path, int64_t last_step, WarnOnce::Sink warn = {});

  // One line, on disk when the call returns. A deleted file is made again; what cannot be written is lost with one
  // warning. Numbers that are not finite become null.
  void write(int64_t step, const Metrics& metrics) noexcept;

 private:
  bool reopen_if_deleted();

  std::string path_;
  WarnOnce warn_;
  FileDescriptor file_;
  bool line_broken_ = false;  // the last write stopped in the middle of its line
};

struct MetricPoint {
  int64_t step = 0;
  double value = 0;  // NaN where the log has null
};

struct MetricSeries {
  std::map<std::string, std::vector<MetricPoint>> by_name;
  uint64_t unreadable_lines = 0;  // cut by a full disk or a crash; left out
};

MetricSeries read_metrics(const std::string& path);

}  // namespace pmnet
