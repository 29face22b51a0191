#include "report/curves.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxPoints = 1500;

Series to_series(const std::string& name, const std::vector<MetricPoint>& points) {
  Series series;
  series.name = name;
  const size_t stride = (points.size() + kMaxPoints - 1) / kMaxPoints;
  for (size_t first = 0; first < points.size(); first += stride) {
    const size_t last = std::min(points.size(), first + stride);
    double sum = 0, low = INFINITY, high = -INFINITY;
    size_t count = 0;
    for (size_t i = first; i < last; ++i) {
      if (!std::isfinite(points[i].value)) continue;
      sum += points[i].value;
      low = std::min(low, points[i].value);
      high = std::max(high, points[i].value);
      ++count;
    }
    series.x.push_back(static_cast<double>(points[first + (last - first) / 2].step));
    series.y.push_back(count ? sum / static_cast<double>(count) : NAN);
    if (stride > 1) {
      series.low.push_back(low);
      series.high.push_back(high);
    }
  }
  return series;
}

struct Wanted {
  std::string title, y_label;
  std::vector<std::string> names;
  Scale y_scale;
};

LineChart chart_of(const std::vector<Run>& runs, const Wanted& wanted) {
  LineChart chart;
  chart.title = wanted.title;
  chart.x_label = "step";
  chart.y_label = wanted.y_label;
  chart.y_scale = wanted.y_scale;
  for (const Run& run : runs) {
    for (const std::string& name : wanted.names) {
      const auto found = run.metrics.by_name.find(name);
      if (found == run.metrics.by_name.end()) continue;
      chart.series.push_back(to_series(runs.size() > 1 ? run.name + " " + name : name, found->second));
    }
  }
  return chart;
}

std::string names_in(const std::vector<Run>& runs) {
  std::vector<std::string> names;
  for (const Run& run : runs)
    for (const auto& [name, points] : run.metrics.by_name)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Run read_run(const std::string& path) {
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  const fs::path file = folder ? fs::path(path) / "metrics.jsonl" : fs::path(path);
  if (folder && !fs::exists(file, error))
    fail("'{}' is not the folder of a run: it has no metrics.jsonl; name a folder that `pmnet train` wrote", path);
  const fs::path shown = fs::weakly_canonical(folder ? fs::path(path) : file.parent_path(), error);
  return {shown.has_filename() ? shown.filename().string() : shown.parent_path().filename().string(),
          read_metrics(file.string())};
}

std::vector<LineChart> curves_of(const std::vector<Run>& runs, const std::vector<std::string>& names) {
  std::vector<Wanted> wanted;
  if (names.empty()) {
    wanted = {{"Bits per byte", "BPB", {"train/bpb", "val/bpb"}, Scale::Linear},
              {"Gradient norm", "norm", {"train/grad_norm"}, Scale::Log10}};
    if (chart_of(runs, wanted[0]).series.empty())
      wanted[0] = {"Loss", "nats", {"train/loss", "val/loss"}, Scale::Linear};
  }
  for (const std::string& name : names) wanted.push_back({name, "", {name}, Scale::Linear});
  std::vector<LineChart> charts;
  for (const Wanted& one : wanted) {
    LineChart chart = chart_of(runs, one);
    if (!chart.series.empty())
      charts.push_back(std::move(chart));
    else if (!names.empty())
      fail("no run has logged '{}'; they have {}", one.names[0], names_in(runs));
  }
  if (charts.empty())
    fail("there is nothing to draw: no loss and no gradient norm was logged, only {}", names_in(runs));
  return charts;
}

}  // namespace pmnet
