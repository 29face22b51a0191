#include "experiments/framework/task_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/format.h"
#include "report/metrics_log.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostPoints = 400;  // of a line

// Values of one metric of several seeds, gathered in equal stretches of steps.
Series gathered(const std::string& name, const std::vector<std::vector<MetricPoint>>& seeds) {
  int64_t last = 0;
  for (const auto& points : seeds)
    if (!points.empty()) last = std::max(last, points.back().step);
  const int64_t stretch = std::max<int64_t>(1, (last + kMostPoints - 1) / kMostPoints);
  struct Gathered {
    double sum = 0, least = INFINITY, most = -INFINITY;
    int64_t count = 0;
  };
  std::map<int64_t, Gathered> stretches;
  for (const auto& points : seeds) {
    for (const MetricPoint& point : points) {
      if (!std::isfinite(point.value)) continue;
      Gathered& here = stretches[point.step / stretch];
      here.sum += point.value;
      here.least = std::min(here.least, point.value);
      here.most = std::max(here.most, point.value);
      here.count += 1;
    }
  }
  Series series;
  series.name = name;
  for (const auto& [number, here] : stretches) {
    series.x.push_back((static_cast<double>(number) + 0.5) * static_cast<double>(stretch));
    series.y.push_back(here.sum / static_cast<double>(here.count));
    series.low.push_back(here.least);
    series.high.push_back(here.most);
  }
  return series;
}

}  // namespace

Check accuracy_check(const std::string& what, const std::vector<double>& per_seed, int64_t trials) {
  Check check;
  check.what = what;
  check.measured = mean_interval(per_seed);
  if (per_seed.size() == 1) {  // no spread over seeds to be had
    check.measured = share_interval(std::llround(per_seed[0] * static_cast<double>(trials)), trials);
    check.over = "trials";
  }
  return check;
}

NamedTable training_table(const Results& results, const std::vector<NamedTraining>& trainings) {
  Table table({"model", "seed", "parameters", "steps", "best step", "score", "median norm", "largest norm", "skipped",
               "batches"});
  for (const NamedTraining& training : trainings) {
    const nlohmann::json& result = results.at(training.part);
    table.add_row(
        {training.title, std::to_string(training.seed), format_count(static_cast<uint64_t>(training.parameters)),
         std::to_string(result.at("steps").get<int64_t>()), std::to_string(result.at("best_step").get<int64_t>()),
         fmt::format("{:.4f}", number_of(result.at("best_score"))),
         fmt::format("{:.3g}", number_of(result.at("median_norm"))),
         fmt::format("{:.3g}", number_of(result.at("largest_norm"))),
         std::to_string(result.at("skipped").get<int64_t>()), result.at("batch_hash").get<std::string>()});
  }
  return {
      "Gradient norms are those before clipping. The last column is a hash of all batches in order: equal for models "
      "that saw the same bytes for the same number of steps.",
      table};
}

std::vector<LineChart> training_charts(const fs::path& folder, const std::vector<NamedTraining>& trainings,
                                       const std::vector<WantedCurve>& wanted) {
  std::vector<std::string> titles;
  std::map<std::string, std::vector<MetricSeries>> seeds;
  for (const NamedTraining& training : trainings) {
    if (!seeds.contains(training.title)) titles.push_back(training.title);
    seeds[training.title].push_back(
        read_metrics((folder / "parts" / folder_name(training.part) / "metrics.jsonl").string()));
  }
  std::vector<LineChart> charts;
  for (const WantedCurve& curve : wanted) {
    LineChart& chart = charts.emplace_back();
    chart.title = curve.title;
    chart.x_label = "step";
    chart.y_label = curve.y_label;
    chart.y_scale = curve.y_scale;
    for (const std::string& title : titles) {
      std::vector<std::vector<MetricPoint>> points;
      for (const MetricSeries& series : seeds[title])
        if (const auto found = series.by_name.find(curve.metric); found != series.by_name.end())
          points.push_back(found->second);
      if (!points.empty()) chart.series.push_back(gathered(title, points));
    }
  }
  return charts;
}

}  // namespace pmnet
