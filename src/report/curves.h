// What metrics.jsonl of one or several runs says over time -> charts.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "report/metrics_log.h"
#include "report/plot.h"

namespace pmnet {

struct Run {
  std::string name;  // the last part of the folder's path
  std::filesystem::path folder;
  MetricSeries metrics;
};

// A run folder, or its metrics.jsonl.
Run read_run(const std::string& path);
// Several, with distinct names.
std::vector<Run> read_runs(const std::vector<std::string>& paths);

// Without names: bits per byte in training and validation (the loss where there are none) and the gradient norm, as far
// as they were logged. With names: one chart for each. Long series are averaged to what a picture can show, with a band
// from the least to the greatest value, so that spikes stay visible. Nothing to draw is a UserError.
std::vector<LineChart> curves_of(const std::vector<Run>& runs, const std::vector<std::string>& names = {});

}  // namespace pmnet
