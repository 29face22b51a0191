#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/atomic_folder.h"
#include "base/format.h"
#include "experiments/framework/task_report.h"
#include "experiments/recall/recall.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;

// The longest tested length that training has seen; where that is within the reach, the next one past it.
int64_t length_to_judge(const RecallSettings& settings) {
  int64_t chosen = 0;
  for (const int64_t length : settings.lengths)
    if (length > settings.reach() && (chosen == 0 || length <= settings.most)) chosen = length;
  return chosen;
}

std::string accuracy_of(const CandidateSpec& candidate, const TaskCell& cell) {
  return fmt::format("accuracy of {} with {} fact(s) after {} bytes", candidate.title, cell.load,
                     format_count(static_cast<uint64_t>(cell.length)));
}

Finding reach_finding(const RecallSettings& settings, const TaskResults& results) {
  Finding finding;
  finding.heading = "Memory answers where no window can see";
  finding.claim = fmt::format(
      "PMNet gives the value of a fact that is further back than its windows reach ({} layers of a window of {}: {} "
      "bytes), and cannot without the recurrence of its memory.",
      settings.shape.num_layers, settings.shape.sliding_window, settings.reach());
  const Course& course = results.plan().courses.front();
  const TaskCell cell = {settings.loads.front(), length_to_judge(settings)};
  for (const CandidateSpec& candidate : results.plan().candidates) {
    const std::string what = accuracy_of(candidate, cell);
    if (candidate.remembers()) finding.checks.push_back(results.knows(what, candidate, course, cell));
    if (candidate.is_window_control())
      finding.checks.push_back(control(results.guesses(what, candidate, course, cell)));
  }
  finding.remarks = {fmt::format("Chance is {:.4f}: one of {} values. Up to {:.2f} above it counts as guessing.",
                                 settings.task.chance(), settings.task.values, kChanceMargin)};
  return finding;
}

Finding length_finding(const RecallSettings& settings, const TaskResults& results, const fs::path& folder) {
  const TaskCell cell = {settings.loads.front(), settings.lengths.back()};
  const Course& course = results.plan().courses.front();
  const CandidateSpec& pmnet = results.plan().find("pmnet");
  Finding finding;
  finding.heading = "Far beyond the trained length";
  finding.claim = fmt::format("Trained on at most {} bytes of filler, PMNet still knows the fact after {}.",
                              settings.most, format_count(static_cast<uint64_t>(cell.length)));
  finding.checks = {results.knows(accuracy_of(pmnet, cell), pmnet, course, cell)};
  LineChart chart;
  chart.title = fmt::format("Right answers, {} fact(s)", cell.load);
  chart.x_label = "filler bytes between facts and questions";
  chart.y_label = "accuracy";
  chart.x_scale = Scale::kLog10;
  chart.series = results.over_lengths(course, cell.load);
  const double chance = settings.task.chance(), last = static_cast<double>(cell.length);
  chart.series.push_back({"chance", {chart.series.front().x.front(), last}, {chance, chance}, {}, {}});
  chart.markers = {{static_cast<double>(settings.reach()), "reach of the windows"},
                   {static_cast<double>(settings.most), "trained"}};
  write_chart(chart, (folder / "accuracy.svg").string());
  finding.pictures = {{"accuracy.svg", kSeedBandCaption}};
  return finding;
}

Finding grid_finding(const TaskResults& results, const fs::path& folder) {
  Finding finding;
  finding.heading = "Facts against distance";
  finding.remarks = {
      "White columns to the right were not tested: the Transformer keeps all it has read, and models that cannot "
      "know need no long tests."};
  for (const CandidateSpec& candidate : results.plan().candidates) {
    HeatMap map = results.heat_map(candidate, results.plan().courses.front());
    map.x_label = "filler bytes";
    map.y_label = "facts";
    const std::string file = "grid-" + folder_name(candidate.name) + ".svg";
    write_heat_map(map, (folder / file).string());
    finding.pictures.push_back({file, candidate.title});
  }
  return finding;
}

std::vector<std::string> protocol(const RecallSettings& settings) {
  return {
      fmt::format(
          "A text is BOS, facts (a key byte and a value byte each), filler bytes, and {} of the keys, each followed by "
          "its value, which the model must predict. {} keys, {} values, {} filler bytes, all drawn at random. Training "
          "scores the answers only; the number of facts is one of {}, the filler {} to {} bytes long, both drawn per "
          "sample, the length evenly over {}.",
          settings.task.questions == 0 ? "all" : std::to_string(settings.task.questions), settings.task.keys,
          settings.task.values, settings.task.fillers, fmt::join(settings.loads, ", "), settings.least, settings.most,
          settings.log_lengths ? "its doublings" : "all values"),
      "Every training keeps the weights that did best on validation rows, and ends early when nearly all of those are "
      "answered. The test has other rows. An answer is right when the likeliest of all bytes is the value.",
      "PMNet, No Recurrence is the trained PMNet with the recurrence of its memory switched off in the test. Window "
      "only is PMNet trained without memory modules. Transformer and Mamba have PMNet's number of parameters within "
      "2%."};
}

}  // namespace

Report RecallExperiment::report(const Results& found, const fs::path& folder) {
  const TaskResults results(settings_, plan(), found);
  write_file_atomically(folder / "accuracy.csv", results.cell_table().csv());
  Finding trainings;
  trainings.heading = "Trainings";
  trainings.tables = {results.training_table()};
  return {"Recall",
          protocol(settings_),
          {reach_finding(settings_, results), length_finding(settings_, results, folder), grid_finding(results, folder),
           trainings}};
}

}  // namespace pmnet
