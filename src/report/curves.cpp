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

// An exponential average over about a fiftieth of the points, without the bias towards its start.
std::vector<double> smoothed(const std::vector<double>& values) {
  const double keep = 1 - std::min(1.0, 50.0 / std::max<double>(1, static_cast<double>(values.size())));
  double sum = 0, weight = 0;
  std::vector<double> smooth;
  for (const double value : values) {
    if (std::isfinite(value)) {
      sum = keep * sum + (1 - keep) * value;
      weight = keep * weight + (1 - keep);
    }
    smooth.push_back(weight > 0 ? sum / weight : NAN);
  }
  return smooth;
}

struct Metric {
  std::string key, name;  // as logged, and for people
  bool validation = false;
};

struct Wanted {
  std::string title, y_label;
  std::vector<Metric> metrics;
  Scale y_scale;
};

// One run: a colour for training and one for validation. Several: a colour for each run, validation dashed.
LineChart chart_of(const std::vector<Run>& runs, const Wanted& wanted) {
  LineChart chart;
  chart.title = wanted.title;
  chart.x_label = "training step";
  chart.y_label = wanted.y_label;
  chart.y_scale = wanted.y_scale;
  for (size_t r = 0; r < runs.size(); ++r) {
    for (const Metric& metric : wanted.metrics) {
      const auto found = runs[r].metrics.by_name.find(metric.key);
      if (found == runs[r].metrics.by_name.end()) continue;
      Series series = to_series(runs.size() > 1 ? runs[r].name + ", " + metric.name : metric.name, found->second);
      if (!metric.validation) series.smooth = smoothed(series.y);
      series.colour = runs.size() > 1 ? static_cast<int>(r) : metric.validation;
      series.dashed = runs.size() > 1 && metric.validation;
      chart.series.push_back(std::move(series));
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
    fail("{}: is not the folder of a run: it has no metrics.jsonl; name a folder that 'pmnet train' wrote", path);
  fs::path shown = fs::weakly_canonical(folder ? fs::path(path) : file.parent_path(), error);
  if (!shown.has_filename()) shown = shown.parent_path();
  return {shown.filename().string(), shown, read_metrics(file.string())};
}

std::vector<Run> read_runs(const std::vector<std::string>& paths) {
  std::vector<Run> runs;
  for (const std::string& path : paths) runs.push_back(read_run(path));
  const auto is_shared = [&](const Run& run) {
    return std::count_if(runs.begin(), runs.end(), [&](const Run& other) { return other.name == run.name; }) > 1;
  };
  // demo/run and other/run: names grow to the left until they differ, or there is no more path.
  for (bool changed = true; changed;) {
    std::vector<std::string> names;
    changed = false;
    for (const Run& run : runs) {
      const std::string all = run.folder.string();
      const size_t known = run.name.size() + 1;  // and the slash before it
      const bool grow = is_shared(run) && all.size() > known;
      const size_t slash = grow ? all.rfind('/', all.size() - known - 1) : std::string::npos;
      names.push_back(slash == std::string::npos ? run.name : all.substr(slash + 1));
      changed = changed || names.back() != run.name;
    }
    for (size_t i = 0; i < runs.size(); ++i) runs[i].name = names[i];
  }
  return runs;
}

std::vector<LineChart> curves_of(const std::vector<Run>& runs, const std::vector<std::string>& names) {
  std::vector<Wanted> wanted;
  if (names.empty()) {
    wanted = {{"Bits per byte",
               "bits per byte",
               {{"train/bpb", "training"}, {"val/bpb", "validation", true}},
               Scale::kLinear},
              {"Gradient norm", "L2 norm", {{"train/grad_norm", "training"}}, Scale::kLog10}};
    if (chart_of(runs, wanted[0]).series.empty())
      wanted[0] = {
          "Loss", "nats per byte", {{"train/loss", "training"}, {"val/loss", "validation", true}}, Scale::kLinear};
  }
  for (const std::string& name : names)
    wanted.push_back({name, name, {{name, name, name.starts_with("val/")}}, Scale::kLinear});
  std::vector<LineChart> charts;
  for (const Wanted& one : wanted) {
    LineChart chart = chart_of(runs, one);
    if (!chart.series.empty())
      charts.push_back(std::move(chart));
    else if (!names.empty())
      fail("no run has logged '{}'; they have {}", one.metrics[0].key, names_in(runs));
  }
  if (charts.empty())
    fail("there is nothing to draw: no loss and no gradient norm was logged, only {}", names_in(runs));
  return charts;
}

}  // namespace pmnet
