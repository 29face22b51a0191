#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/atomic_folder.h"
#include "config/costs.h"
#include "experiments/copy/copy.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const char* title_of(Contender contender) { return contender == Contender::kPmnet ? "PMNet" : "PMNet (No Memory)"; }

}  // namespace

std::vector<double> CopyExperiment::per_seed(const Results& results, const std::string& reading, Contender contender,
                                             const std::string& measure, int64_t length) const {
  const std::vector<int64_t> lengths = settings_.tested(reading);
  const auto place = static_cast<size_t>(std::find(lengths.begin(), lengths.end(), length) - lengths.begin());
  std::vector<double> values;
  for (int64_t seed = 1; seed <= settings_.seeds; ++seed)
    values.push_back(number_of(results.at(Arm{reading, contender, seed}.test_name()).at(measure).at(place)));
  return values;
}

Check CopyExperiment::accuracy(const Results& results, const std::string& reading, Contender contender,
                               int64_t length) const {
  Check check =
      accuracy_check(fmt::format("exact-token accuracy of {} at N = {}", title_of(contender), length),
                     per_seed(results, reading, contender, "token_accuracy", length), settings_.samples * length);
  check.threshold = kLearned;
  return check;
}

Check CopyExperiment::control(const Results& results, int64_t length) const {
  Check check = accuracy(results, "strict", Contender::kWindow, length);
  check.bound = Bound::kAtMost;
  check.threshold = settings_.task().chance() + kChanceMargin;
  check.control = true;
  return check;
}

Finding CopyExperiment::reach_finding(const Results& results) const {
  const int64_t length = settings_.reach() + 1;
  Finding finding;
  finding.heading = "Memory carries what no window can see";
  finding.claim = fmt::format(
      "At N = {}, where every byte to copy is just beyond the reach of the windows, PMNet is closer to all right "
      "than to chance, and the model without memory modules guesses.",
      length);
  Check carried = accuracy(results, "strict", Contender::kPmnet, length);
  carried.threshold = 0.5 * (1 + settings_.task().chance());
  finding.checks = {carried, control(results, length)};
  return finding;
}

Finding CopyExperiment::accuracy_finding(const Results& results, const std::string& reading,
                                         const fs::path& folder) const {
  const bool strict = reading == "strict";
  const int64_t most = settings_.most(reading), longest = settings_.longest(reading);
  Finding finding;
  finding.heading = fmt::format("Accuracy against length, {} reading (figure 4)", reading);
  finding.checks = {accuracy(results, reading, Contender::kPmnet, most)};
  if (strict) {
    finding.claim = fmt::format(
        "Trained on N up to {}, beyond the {} bytes that the windows reach, PMNet copies exactly; without memory "
        "modules the bytes cannot be known.",
        most, settings_.reach());
    finding.checks.push_back(control(results, most));
  } else {
    finding.claim = fmt::format(
        "PMNet keeps near-perfect accuracy over the trained range, up to N = {}; the model without memory modules "
        "collapses at N = {}.",
        most, longest);
    Check collapse = accuracy(results, reading, Contender::kWindow, longest);
    collapse.bound = Bound::kAtMost;
    collapse.threshold = 0.5;
    finding.checks.push_back(collapse);
    finding.remarks.push_back(
        fmt::format("The byte to copy is N back from where it is predicted, and the windows reach {} bytes: this range "
                    "can be learned without memory, and a collapse past the trained lengths says nothing about reach.",
                    settings_.reach()));
  }

  LineChart chart;
  chart.title = fmt::format("Copy accuracy, {} reading", reading);
  chart.x_label = "N, bytes to copy";
  chart.y_label = "accuracy";
  for (const Contender contender : {Contender::kPmnet, Contender::kWindow}) {
    for (const char* measure : {"token_accuracy", "sequence_accuracy"}) {
      Series series;
      series.name = fmt::format("{}, {}", title_of(contender),
                                std::string(measure) == "token_accuracy" ? "exact token" : "whole copy");
      for (const int64_t length : settings_.tested(reading)) {
        const std::vector<double> values = per_seed(results, reading, contender, measure, length);
        const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
        series.x.push_back(static_cast<double>(length));
        series.y.push_back(mean_interval(values).mean);
        series.low.push_back(*least);
        series.high.push_back(*greatest);
      }
      chart.series.push_back(std::move(series));
    }
  }
  chart.markers = {{static_cast<double>(most), "trained"}};
  if (settings_.reach() <= longest) chart.markers.push_back({static_cast<double>(settings_.reach()), "reach"});
  const std::string file = fmt::format("accuracy-{}.svg", reading);
  write_chart(chart, (folder / file).string());
  finding.pictures.push_back({file, "Mean over seeds; the bands go from the worst seed to the best."});
  return finding;
}

Check CopyExperiment::norm_check(const Results& results, const std::string& reading) const {
  std::vector<double> ratios;
  for (int64_t seed = 1; seed <= settings_.seeds; ++seed) {
    const auto largest = [&](Contender contender) {
      return number_of(results.at(Arm{reading, contender, seed}.train_name()).at("largest_norm"));
    };
    ratios.push_back(std::log10(largest(Contender::kPmnet) / largest(Contender::kWindow)));
  }
  Check check;
  check.what = "log10 of the largest gradient norm of PMNet over that of PMNet (No Memory)";
  check.measured = mean_interval(ratios);
  check.threshold = 0;
  return check;
}

Finding CopyExperiment::training_finding(const Results& results, const std::string& reading,
                                         const fs::path& folder) const {
  std::vector<NamedTraining> trainings;
  for (const Arm& arm : arms())
    if (arm.reading == reading)
      trainings.push_back({title_of(arm.contender), arm.seed, arm.train_name(),
                           parameter_count(settings_.model_config(arm.contender))});
  std::vector<WantedCurve> curves = {{"eval/loss", "Evaluation loss", "nats per byte of the copy"},
                                     {"train/grad_norm", "Gradient norm before clipping", "norm", Scale::kLog10}};
  if (settings_.curriculum) curves.push_back({"eval/largest", "Largest N of the curriculum", "bytes"});
  const std::string file = fmt::format("training-{}.svg", reading);
  write_charts(training_charts(folder, trainings, curves), (folder / file).string());

  Finding finding;
  finding.heading = fmt::format("Training, {} reading (figure 5)", reading);
  finding.claim =
      "Gradients of PMNet spike when its memory begins to carry the copy, above those of the model without memory "
      "modules, and training goes on.";
  finding.checks = {norm_check(results, reading)};
  finding.pictures = {{file, "Mean over seeds; the bands go from the least to the greatest value."}};
  finding.tables = {training_table(results, trainings)};
  if (settings_.curriculum)
    finding.remarks = {
        "With the curriculum a batch is a function of the seed, the step and the largest N reached: models that get "
        "there at different steps see different batches. Without it (--set curriculum=false) all see the same."};
  return finding;
}

Table CopyExperiment::cells(const Results& results) const {
  Table table({"reading", "model", "seed", "N", "token accuracy", "sequence accuracy", "loss"});
  for (const Arm& arm : arms()) {
    const json& result = results.at(arm.test_name());
    for (size_t i = 0; i < result.at("lengths").size(); ++i)
      table.add_row({arm.reading, title_of(arm.contender), std::to_string(arm.seed),
                     std::to_string(result.at("lengths").at(i).get<int64_t>()),
                     fmt::format("{:.6f}", number_of(result.at("token_accuracy").at(i))),
                     fmt::format("{:.6f}", number_of(result.at("sequence_accuracy").at(i))),
                     fmt::format("{:.6f}", number_of(result.at("loss").at(i)))});
  }
  return table;
}

Report CopyExperiment::report(const Results& results, const fs::path& folder) {
  write_file_atomically(folder / "accuracy.csv", cells(results).csv());
  Report report;
  report.title = "Copy";
  report.protocol = {
      fmt::format(
          "A text is BOS, N random bytes of {} different ones, a delimiter, and the same N bytes. Training draws N "
          "uniformly and scores the copy alone. An exact-token accuracy is the share of copied bytes that the model "
          "finds likeliest, the true ones being fed; a whole copy has no mistake.",
          settings_.symbols),
      "Every training keeps the weights with the best mean accuracy over the trained lengths, on texts of its own, "
      "and ends early when it copies nearly all of them. PMNet (No Memory) is trained without memory modules.",
      "The paper gives neither learning rate nor batch size nor number of steps: those here are ours."};
  for (const std::string& reading : settings_.readings()) {
    if (reading == "strict") report.findings.push_back(reach_finding(results));
    report.findings.push_back(accuracy_finding(results, reading, folder));
    report.findings.push_back(training_finding(results, reading, folder));
  }
  return report;
}

}  // namespace pmnet
