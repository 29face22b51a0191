#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/atomic_folder.h"
#include "base/format.h"
#include "config/costs.h"
#include "experiments/recall/recall.h"

namespace pmnet {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<double> RecallExperiment::accuracies(const Results& results, const RecallCandidate& candidate,
                                                 int64_t facts, int64_t distance) const {
  const std::vector<int64_t> distances = distances_of(candidate);
  const auto place = std::find(distances.begin(), distances.end(), distance);
  std::vector<double> values;
  if (place == distances.end()) return values;
  for (int64_t seed = 1; seed <= settings_.seeds; ++seed) {
    const json& right = results.at(test_name(candidate, seed)).at("right").at(std::to_string(facts));
    values.push_back(right.at(static_cast<size_t>(place - distances.begin())).get<double>() /
                     static_cast<double>(settings_.streams));
  }
  return values;
}

Check RecallExperiment::check(const Results& results, const RecallCandidate& candidate, int64_t distance) const {
  const int64_t facts = settings_.facts.front();
  Check check = accuracy_check(fmt::format("accuracy of {} with {} fact(s) after {} bytes", candidate.title, facts,
                                           format_count(static_cast<uint64_t>(distance))),
                               accuracies(results, candidate, facts, distance), settings_.streams);
  check.control = candidate.is_control();
  check.bound = check.control ? Bound::kAtMost : Bound::kAtLeast;
  check.threshold = check.control ? settings_.task().chance() + kChanceMargin : kLearned;
  return check;
}

Finding RecallExperiment::reach_finding(const Results& results) const {
  Finding finding;
  finding.heading = "Memory answers where no window can see";
  finding.claim = fmt::format(
      "PMNet gives the value of a fact that is further back than its windows reach ({} layers of a window of {}: {} "
      "bytes), and cannot without the recurrence of its memory.",
      settings_.layers, settings_.window, settings_.reach());
  // The longest that training has seen; where that is within the reach, the next one past it.
  int64_t asked = 0;
  for (const int64_t distance : settings_.distances)
    if (distance > settings_.reach() && (asked == 0 || distance <= settings_.most_distance)) asked = distance;
  for (const RecallCandidate& candidate : candidates())
    if (candidate.is_pmnet() || candidate.is_control()) finding.checks.push_back(check(results, candidate, asked));
  finding.remarks.push_back(fmt::format("Chance is {:.4f}: one of {} values. Up to {:.2f} above it counts as guessing.",
                                        settings_.task().chance(), settings_.values, kChanceMargin));
  return finding;
}

Finding RecallExperiment::length_finding(const Results& results, const fs::path& folder) const {
  Finding finding;
  const int64_t facts = settings_.facts.front(), longest = settings_.distances.back();
  finding.heading = "Far beyond the trained length";
  finding.claim = fmt::format("Trained on at most {} bytes of filler, PMNet still knows the fact after {}.",
                              settings_.most_distance, format_count(static_cast<uint64_t>(longest)));
  LineChart chart;
  chart.title = fmt::format("Right answers, {} fact(s)", facts);
  chart.x_label = "filler bytes between fact and question";
  chart.y_label = "accuracy";
  chart.x_scale = Scale::kLog10;
  for (const RecallCandidate& candidate : candidates()) {
    if (candidate.is_pmnet()) finding.checks.push_back(check(results, candidate, longest));
    Series series;
    series.name = candidate.title;
    for (const int64_t distance : distances_of(candidate)) {
      const std::vector<double> values = accuracies(results, candidate, facts, distance);
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      series.x.push_back(static_cast<double>(std::max<int64_t>(1, distance)));
      series.y.push_back(mean_interval(values).mean);
      series.low.push_back(*least);
      series.high.push_back(*most);
    }
    chart.series.push_back(std::move(series));
  }
  const double chance = settings_.task().chance();
  const double first = static_cast<double>(std::max<int64_t>(1, settings_.distances.front()));
  chart.series.push_back({"chance", {first, static_cast<double>(longest)}, {chance, chance}, {}, {}});
  chart.markers = {{static_cast<double>(settings_.reach()), "reach of the windows"},
                   {static_cast<double>(settings_.most_distance), "trained"}};
  write_chart(chart, (folder / "accuracy.svg").string());
  finding.pictures.push_back({"accuracy.svg", "Mean over seeds; the bands go from the worst seed to the best."});
  return finding;
}

Finding RecallExperiment::grid_finding(const Results& results, const fs::path& folder) const {
  Finding finding;
  finding.heading = "Facts against distance";
  finding.remarks = {
      "White columns to the right were not tested: the Transformer keeps all it has read, and models that cannot "
      "know need no long tests."};
  for (const RecallCandidate& candidate : candidates()) {
    HeatMap map;
    map.title = fmt::format("{}: right answers (chance {:.3f})", candidate.title, settings_.task().chance());
    map.x_label = "filler bytes";
    map.y_label = "facts";
    map.value_label = "accuracy, mean over seeds";
    map.low = 0;
    map.high = 1;
    double reach = -0.5;
    for (const int64_t distance : settings_.distances) {
      map.x_names.push_back(format_si(static_cast<double>(distance)));
      if (distance <= settings_.reach()) reach += 1;
    }
    if (candidate.is_pmnet() || candidate.is_control()) map.markers.push_back({reach, "reach of the windows"});
    for (const int64_t facts : settings_.facts) {
      map.y_names.push_back(std::to_string(facts));
      std::vector<double>& row = map.values.emplace_back();
      for (const int64_t distance : settings_.distances)
        row.push_back(mean_interval(accuracies(results, candidate, facts, distance)).mean);
    }
    const std::string file = "grid-" + folder_name(candidate.name) + ".svg";
    write_heat_map(map, (folder / file).string());
    finding.pictures.push_back({file, candidate.title});
  }
  return finding;
}

Finding RecallExperiment::training_finding(const Results& results) const {
  std::vector<NamedTraining> trainings;
  for (int64_t seed = 1; seed <= settings_.seeds; ++seed)
    for (const std::string& name : settings_.contenders) {
      const Contender contender = contender_of(name);
      trainings.push_back({contender_title(contender), seed, train_name(contender, seed),
                           parameter_count(settings_.model_config(contender))});
    }
  Finding finding;
  finding.heading = "Trainings";
  finding.tables.push_back(training_table(results, trainings));
  return finding;
}

Table RecallExperiment::cells(const Results& results) const {
  Table table({"model", "seed", "facts", "distance", "accuracy", "loss"});
  for (const RecallCandidate& candidate : candidates()) {
    const std::vector<int64_t> distances = distances_of(candidate);
    for (int64_t seed = 1; seed <= settings_.seeds; ++seed) {
      const json& result = results.at(test_name(candidate, seed));
      for (const int64_t facts : settings_.facts)
        for (size_t i = 0; i < distances.size(); ++i)
          table.add_row({candidate.title, std::to_string(seed), std::to_string(facts), std::to_string(distances[i]),
                         fmt::format("{:.6f}", result.at("right").at(std::to_string(facts)).at(i).get<double>() /
                                                   static_cast<double>(settings_.streams)),
                         fmt::format("{:.6f}", number_of(result.at("loss").at(std::to_string(facts)).at(i)))});
    }
  }
  return table;
}

Report RecallExperiment::report(const Results& results, const fs::path& folder) {
  write_file_atomically(folder / "accuracy.csv", cells(results).csv());
  Report report;
  report.title = "Recall";
  report.protocol = {
      fmt::format(
          "A text is BOS, facts (a key byte and a value byte each), filler bytes, and one of the keys; the model is "
          "to give the value. {} keys, {} values, {} filler bytes, all drawn at random. Training scores only the "
          "answer; the number of facts is one of {}, the filler {} to {} bytes long, both drawn per sample, the "
          "length evenly over {}.",
          settings_.keys, settings_.values, settings_.fillers, fmt::join(settings_.facts, ", "),
          settings_.least_distance, settings_.most_distance, settings_.log_distances ? "its doublings" : "all values"),
      "Every training keeps the weights that did best on questions of its own, and ends early when it answers nearly "
      "all of them. The test asks other questions: each stream is read once, and at every distance a copy of its "
      "state is asked. An answer is right when the likeliest of all bytes is the value.",
      "PMNet, No Recurrence is the trained PMNet with the recurrence of its memory switched off at the test. Window "
      "only is PMNet trained without memory modules. Transformer and Mamba have PMNet's number of parameters within "
      "2%."};
  report.findings = {reach_finding(results), length_finding(results, folder), grid_finding(results, folder),
                     training_finding(results)};
  return report;
}

}  // namespace pmnet
