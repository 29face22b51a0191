#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/atomic_folder.h"
#include "config/costs.h"
#include "experiments/stability/stability.h"

namespace pmnet {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<double> StabilityExperiment::per_seed(const Results& results, const Variant& variant, int64_t context,
                                                  const std::string& measure) const {
  std::vector<double> values;
  for (int64_t seed = 1; seed <= settings_.seeds; ++seed)
    values.push_back(number_of(results.at(part_name(variant, context, seed)).at(measure)));
  return values;
}

Check StabilityExperiment::norm_check(const Results& results, const Variant& above, int64_t above_context,
                                      const Variant& below, int64_t below_context, const std::string& measure) const {
  const std::vector<double> upper = per_seed(results, above, above_context, measure);
  const std::vector<double> lower = per_seed(results, below, below_context, measure);
  std::vector<double> ratios;
  for (size_t i = 0; i < upper.size(); ++i) ratios.push_back(std::log10(upper[i] / lower[i]));
  Check check;
  check.measured = mean_interval(ratios);
  return check;
}

LineChart StabilityExperiment::over_context(const Results& results, const std::string& measure,
                                            const std::string& title, const std::string& y_label, Scale y_scale) const {
  LineChart chart;
  chart.title = title;
  chart.x_label = "context, filler bytes at most";
  chart.y_label = y_label;
  chart.x_scale = Scale::kLog2;
  chart.y_scale = y_scale;
  for (const Variant& variant : variants()) {
    Series series;
    series.name = variant.name;
    for (const int64_t context : settings_.contexts) {
      const std::vector<double> values = per_seed(results, variant, context, measure);
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      series.x.push_back(static_cast<double>(context));
      series.y.push_back(mean_interval(values).mean);
      series.low.push_back(*least);
      series.high.push_back(*most);
    }
    chart.series.push_back(std::move(series));
  }
  chart.markers = {{static_cast<double>(settings_.reach()), "reach of the windows"}};
  return chart;
}

Finding StabilityExperiment::rotation_finding(const Results& results, const fs::path& folder) const {
  const int64_t shortest = settings_.contexts.front(), longest = settings_.contexts.back();
  const Variant& phases = variants()[0];
  Finding finding;
  finding.heading = "Phase rotation over context length";
  finding.claim =
      "Constrained to phase rotations, memory is trained at any length: the fact is recalled, and gradient norms "
      "grow no faster than the square root of the length.";
  Check recalled = accuracy_check(fmt::format("accuracy over a context of {} bytes", longest),
                                  per_seed(results, phases, longest, "accuracy"), settings_.streams);
  recalled.threshold = kLearned;
  Check growth = norm_check(results, phases, longest, phases, shortest, "median_norm");
  growth.what = fmt::format("log10 of the median gradient norm at {} over that at {} bytes", longest, shortest);
  growth.bound = Bound::kAtMost;
  growth.threshold = 0.5 * std::log10(static_cast<double>(longest) / static_cast<double>(shortest));
  Check control = accuracy_check(fmt::format("accuracy of the same weights over {} bytes without recurrence", longest),
                                 per_seed(results, phases, longest, "accuracy_without_recurrence"), settings_.streams);
  control.bound = Bound::kAtMost;
  control.threshold = settings_.task().chance() + kChanceMargin;
  control.control = true;
  finding.checks = {recalled, growth, control};
  const std::vector<LineChart> charts = {
      over_context(results, "accuracy", "Recall at the full context", "accuracy", Scale::kLinear),
      over_context(results, "median_norm", "Median gradient norm", "norm", Scale::kLog10),
      over_context(results, "largest_norm", "Largest gradient norm", "norm", Scale::kLog10)};
  write_charts(charts, (folder / "context.svg").string());
  finding.pictures = {{"context.svg", "Mean over seeds; the bands go from the least to the greatest seed."}};
  return finding;
}

Finding StabilityExperiment::constraint_finding(const Results& results) const {
  const int64_t longest = settings_.contexts.back();
  Finding finding;
  finding.heading = "Without the constraint";
  finding.claim =
      "Unconstrained memory, Phi(theta) = [theta, 0] and sums without wrapping, has gradients at least ten times "
      "larger.";
  Check check = norm_check(results, variants()[2], longest, variants()[0], longest, "largest_norm");
  check.what =
      fmt::format("log10 of the largest gradient norm of unconstrained over rotating memory at {} bytes", longest);
  check.threshold = 1;
  finding.checks = {check};
  Table table({"variant", "context", "accuracy", "median norm", "largest norm", "updates skipped", "loss at the end"});
  for (const Variant& variant : variants())
    for (const int64_t context : settings_.contexts) {
      const auto mean = [&](const std::string& measure) {
        return mean_interval(per_seed(results, variant, context, measure)).mean;
      };
      table.add_row({variant.name, std::to_string(context), fmt::format("{:.4f}", mean("accuracy")),
                     fmt::format("{:.3g}", mean("median_norm")), fmt::format("{:.3g}", mean("largest_norm")),
                     fmt::format("{:.1f}", mean("skipped")), fmt::format("{:.4f}", mean("last_loss"))});
    }
  finding.tables = {{"Means over seeds; norms before clipping, of the steps where they were finite.", table}};
  return finding;
}

Finding StabilityExperiment::normalization_finding(const Results& results) const {
  const int64_t longest = settings_.contexts.back();
  Finding finding;
  finding.heading = "Segment-aware normalisation";
  finding.claim = "Dividing the gradient of a write by the square root of the writes to its group keeps norms down.";
  Check check = norm_check(results, variants()[1], longest, variants()[0], longest, "median_norm");
  check.what = fmt::format("log10 of the median gradient norm without over with normalisation at {} bytes", longest);
  check.threshold = 0;
  finding.checks = {check};
  return finding;
}

Finding StabilityExperiment::training_finding(const Results& results, const fs::path& folder) const {
  std::vector<NamedTraining> longest_ones, all;
  const int64_t parameters = parameter_count(settings_.model_config(Contender::kPmnet));
  for (const int64_t context : settings_.contexts)
    for (const Variant& variant : variants())
      for (int64_t seed = 1; seed <= settings_.seeds; ++seed) {
        const std::string part = part_name(variant, context, seed);
        all.push_back({fmt::format("{}, context {}", variant.name, context), seed, part, parameters});
        if (context == settings_.contexts.back()) longest_ones.push_back({variant.name, seed, part, parameters});
      }
  write_charts(training_charts(folder, longest_ones,
                               {{"train/grad_norm", "Gradient norm before clipping", "norm", Scale::kLog10},
                                {"train/loss", "Training loss", "nats"},
                                {"eval/accuracy", "Recall at the full context", "accuracy"}}),
               (folder / "training.svg").string());
  Finding finding;
  finding.heading = "Trainings";
  finding.pictures = {{"training.svg", fmt::format("Trainings with {} bytes of context, mean over seeds; the bands go "
                                                   "from the least to the greatest value.",
                                                   settings_.contexts.back())}};
  finding.tables = {training_table(results, all)};
  return finding;
}

Table StabilityExperiment::cells(const Results& results) const {
  const std::vector<std::string> measures = {
      "accuracy", "accuracy_without_recurrence", "median_norm", "largest_norm", "skipped", "last_loss"};
  std::vector<std::string> headers = {"variant", "context", "seed"};
  headers.insert(headers.end(), measures.begin(), measures.end());
  Table table(headers);
  for (const Variant& variant : variants())
    for (const int64_t context : settings_.contexts)
      for (int64_t seed = 1; seed <= settings_.seeds; ++seed) {
        std::vector<std::string> row = {variant.name, std::to_string(context), std::to_string(seed)};
        for (const std::string& measure : measures)
          row.push_back(fmt::format("{:.6g}", number_of(results.at(part_name(variant, context, seed)).at(measure))));
        table.add_row(row);
      }
  return table;
}

Report StabilityExperiment::report(const Results& results, const fs::path& folder) {
  write_file_atomically(folder / "stability.csv", cells(results).csv());
  Report report;
  report.title = "Stability";
  report.protocol = {
      fmt::format(
          "One fact of {} values at the start of a text, filler of 0 to `context` bytes of {} different ones, then "
          "the question; only the answer is scored. Lengths are drawn evenly over their doublings. Every variant is "
          "trained from the same weights on the same batches "
          "for the same {} steps, with gradients clipped to {}: the norms shown are those before.",
          settings_.values, settings_.fillers, settings_.steps, settings_.clip),
      "Phases are the published memory. Unconstrained memory has the same parameters; its features are the sums "
      "themselves, which are not wrapped. Accuracy is that of the best weights on questions at the full context."};
  report.findings = {rotation_finding(results, folder), constraint_finding(results), normalization_finding(results),
                     training_finding(results, folder)};
  return report;
}

}  // namespace pmnet
