#include "experiments/framework/training_charts.h"

#include <cmath>
#include <map>

#include "report/metrics_log.h"

namespace pmnet {

namespace {

constexpr int64_t kMostPoints = 400;  // of a line

// One metric of several seeds, in equal intervals of steps.
Series metric_band(const std::string& name, const std::vector<std::vector<MetricPoint>>& seeds) {
  int64_t last = 0;
  for (const auto& points : seeds)
    if (!points.empty()) last = std::max(last, points.back().step);
  const int64_t width = std::max<int64_t>(1, (last + kMostPoints - 1) / kMostPoints);
  std::map<int64_t, std::vector<double>> intervals;
  for (const auto& points : seeds)
    for (const MetricPoint& point : points)
      if (std::isfinite(point.value)) intervals[point.step / width].push_back(point.value);
  std::vector<double> xs;
  std::vector<std::vector<double>> values;
  for (auto& [number, inside] : intervals) {
    xs.push_back((static_cast<double>(number) + 0.5) * static_cast<double>(width));
    values.push_back(std::move(inside));
  }
  return seed_band(name, xs, values);
}

}  // namespace

std::vector<LineChart> training_charts(const std::vector<SeedCurves>& models,
                                       const std::vector<TrainingMetric>& metrics) {
  std::vector<LineChart> charts;
  for (const TrainingMetric& metric : metrics) {
    LineChart& chart = charts.emplace_back();
    chart.title = metric.title;
    chart.x_label = "step";
    chart.y_label = metric.y_label;
    chart.y_scale = metric.y_scale;
  }
  for (const SeedCurves& model : models) {
    std::vector<MetricSeries> seeds;
    for (const std::filesystem::path& folder : model.folders)
      seeds.push_back(read_metrics((folder / "metrics.jsonl").string()));
    for (size_t m = 0; m < metrics.size(); ++m) {
      std::vector<std::vector<MetricPoint>> points;
      for (const MetricSeries& series : seeds)
        if (const auto found = series.by_name.find(metrics[m].name); found != series.by_name.end())
          points.push_back(found->second);
      if (points.empty()) continue;
      Series& band = charts[m].series.emplace_back(metric_band(model.title, points));
      band.colour = model.colour;
    }
  }
  return charts;
}

}  // namespace pmnet
