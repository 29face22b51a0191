#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/atomic_folder.h"
#include "base/format.h"
#include "config/costs.h"
#include "experiments/framework/probe.h"
#include "experiments/framework/task_report.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;

constexpr double kControlKnows = 0.99;  // what the Transformer must reach where everything is within its context

std::string count_of(int64_t number) { return format_count(static_cast<uint64_t>(number)); }

std::vector<int64_t> loads_of(const Course& course) {
  std::vector<int64_t> loads;
  for (const TaskCell& cell : course.cells)
    if (loads.empty() || loads.back() != cell.load) loads.push_back(cell.load);
  return loads;
}

// What the findings of one course are made from.
struct Probe {
  const ProbeSettings& settings;
  const ProbeText& text;
  const TaskResults& results;
  const Course& course;
  const fs::path& folder;

  std::string heading(const std::string& words) const {
    return course.name.empty() ? words : fmt::format("{}, {}", words, course.name);
  }
  std::string file(const std::string& words) const {
    return fmt::format("{}.svg", folder_name(course.name.empty() ? words : course.name + " " + words));
  }
  // Where all rows have one load, it goes without saying.
  std::string place(const TaskCell& cell) const {
    const std::string length = fmt::format("{} {}", count_of(cell.length), text.length_name);
    return loads_of(course).size() == 1 ? length
                                        : fmt::format("{}, {} {}", length, count_of(cell.load), text.load_name);
  }
  std::string accuracy_of(const CandidateSpec& candidate, const TaskCell& cell) const {
    return fmt::format("accuracy of {} at {}", candidate.title, place(cell));
  }
};

// The claim is about PMNet; baselines may be trained alone, to be put beside one trained before.
bool trains_pmnet(const std::vector<CandidateKind>& candidates) {
  return std::find(candidates.begin(), candidates.end(), CandidateKind::kPmnet) != candidates.end();
}

Finding memory_finding(const Probe& probe) {
  Finding finding;
  const bool beyond = probe.course.beyond_windows;
  finding.heading = probe.heading(beyond ? "PMNet answers where its windows cannot see" : "PMNet answers");
  finding.claim = beyond
                      ? fmt::format(
                            "PMNet answers at every length that it was trained on beyond the {} bytes that its windows "
                            "reach, and cannot without the recurrence of its memory.",
                            probe.settings.reach())
                      : "PMNet answers at every length that it was trained on.";
  const std::vector<TaskCell> cells = probe.settings.judged_cells(probe.course);
  for (const CandidateSpec& candidate : probe.results.plan().candidates) {
    if (candidate.attends()) {
      const TaskCell& easiest = probe.course.cells.front();
      const TaskResults::Accuracy measured = probe.results.accuracy(candidate, probe.course, easiest);
      finding.checks.push_back(
          control(at_least(kControlKnows, probe.accuracy_of(candidate, easiest), measured.interval, measured.over)));
    }
    for (const TaskCell& cell : cells) {
      const std::string what = probe.accuracy_of(candidate, cell);
      if (candidate.name == "pmnet") finding.checks.push_back(probe.results.knows(what, candidate, probe.course, cell));
      if (beyond && candidate.is_window_control() && (candidate.limit == 0 || cell.length <= candidate.limit))
        finding.checks.push_back(control(probe.results.guesses(what, candidate, probe.course, cell)));
    }
  }
  finding.remarks = {fmt::format("Chance is {:.4f}; up to {:.2f} above it counts as guessing.",
                                 probe.course.task->chance(), kChanceMargin)};
  return finding;
}

// The longest length to which every tested one is answered, per seed; "-" where the shortest is not.
std::vector<std::string> holds_to(const Probe& probe, const CandidateSpec& candidate, int64_t load,
                                  const std::string& measure, double threshold) {
  std::vector<std::string> list;
  for (int64_t seed = 0; seed < probe.settings.seeds; ++seed) {
    std::string reached = "-";
    for (const TaskCell& cell : probe.course.cells) {
      if (cell.load != load) continue;
      const std::vector<double> found = probe.results.tested(candidate, probe.course, cell, measure);
      if (found.empty() || found[static_cast<size_t>(seed)] < threshold) break;
      reached = count_of(cell.length);
    }
    list.push_back(reached);
  }
  return list;
}

Finding length_finding(const Probe& probe) {
  Finding finding;
  finding.heading = probe.heading("How far it holds");
  Table table({"model", probe.text.load_name, fmt::format("at least {:.0f}% to, by seed", 100 * kLearned),
               "without a mistake to, by seed"});
  std::vector<LineChart> charts;
  for (const int64_t load : loads_of(probe.course)) {
    for (const CandidateSpec& candidate : probe.results.plan().candidates)
      table.add_row({candidate.title, count_of(load),
                     fmt::format("{}", fmt::join(holds_to(probe, candidate, load, "accuracy", kLearned), " / ")),
                     fmt::format("{}", fmt::join(holds_to(probe, candidate, load, "row_accuracy", 1), " / "))});
    LineChart& chart = charts.emplace_back();
    chart.title = loads_of(probe.course).size() == 1 ? "Right answers"
                                                     : fmt::format("Right answers, {} {}", load, probe.text.load_name);
    chart.x_label = probe.text.length_name;
    chart.y_label = "accuracy";
    chart.x_scale = Scale::kLog10;
    chart.series = probe.results.over_lengths(probe.course, load);
    const double shortest = chart.series.front().x.front(), longest = chart.series.front().x.back();
    const double chance = probe.course.task->chance();
    chart.series.push_back({"chance", {shortest, longest}, {chance, chance}, {}, {}});
    chart.markers = {{static_cast<double>(probe.course.stages.back().most), "trained"}};
    if (const auto reach = static_cast<double>(probe.settings.reach()); reach >= shortest)
      chart.markers.push_back({reach, "reach of the windows"});
  }
  finding.tables = {
      {"The longest tested length up to which every tested one is answered. The Transformer keeps all it "
       "has read, and models that cannot know need no long tests: they are tested less far.",
       table}};
  write_charts(charts, (probe.folder / probe.file("accuracy")).string());
  finding.pictures = {{probe.file("accuracy"), kSeedBandCaption}};
  return finding;
}

// Accuracy against what a stream keeps.
Finding state_finding(const Probe& probe) {
  Finding finding;
  finding.heading = probe.heading("Accuracy against bytes of state");
  const std::vector<TaskCell> cells = probe.settings.judged_cells(probe.course);
  std::vector<std::string> columns = {"model", "parameters", "state at the longest of these"};
  for (const TaskCell& cell : cells) columns.push_back(probe.place(cell));
  Table table(columns);
  int64_t longest = 0;
  for (const TaskCell& cell : cells) longest = std::max(longest, probe.course.task->row_size(cell));
  for (const CandidateSpec& candidate : probe.results.plan().candidates) {
    std::vector<std::string> row = {
        candidate.title, count_of(parameter_count(candidate.config)),
        format_bytes(static_cast<uint64_t>(total(streaming_state_bytes(candidate.config, longest))))};
    for (const TaskCell& cell : cells) {
      const std::vector<double> found = probe.results.tested(candidate, probe.course, cell);
      const double mean = mean_interval(found).mean;
      row.push_back(found.empty() ? "" : fmt::format("{:.1f}%", 100 * mean));
    }
    table.add_row(row);
  }
  finding.tables = {{"What one stream keeps: keys and values of attention, 8-byte phases, Mamba's two states.", table}};
  return finding;
}

Finding grid_finding(const Probe& probe) {
  Finding finding;
  finding.heading = probe.heading(fmt::format("{} against length", probe.text.load_name));
  finding.heading.front() = static_cast<char>(std::toupper(finding.heading.front()));
  for (const CandidateSpec& candidate : probe.results.plan().candidates) {
    HeatMap map = probe.results.heat_map(candidate, probe.course);
    map.x_label = probe.text.length_name;
    map.y_label = probe.text.load_name;
    const std::string file = probe.file("grid " + candidate.name);
    write_heat_map(map, (probe.folder / file).string());
    finding.pictures.push_back({file, candidate.title});
  }
  return finding;
}

std::vector<std::string> protocol(const ProbeSettings& settings, const ProbeText& text) {
  return {
      text.row,
      fmt::format(
          "Every row of a training is fresh. Training scores the answers only, keeps the weights that did "
          "best on validation rows, and ends {}{}; of the learning rates {}{} each model's best counts. The test has "
          "other rows. An answer is right when the likeliest of all bytes is it.",
          settings.stop_at > 0 ? fmt::format("at {:.1f}% of those", 100 * settings.stop_at)
                               : fmt::format("after {} steps", count_of(settings.train.steps)),
          settings.patience > 0 ? fmt::format(", or after {} steps without a better score", settings.patience) : "",
          fmt::join(settings.learning_rates, ", "),
          settings.baseline_rates.empty()
              ? ""
              : fmt::format(" (Transformer and Mamba: {})", fmt::join(settings.baseline_rates, ", "))),
      "PMNet, No Recurrence is the trained PMNet with the recurrence of its memory switched off in the test. Window "
      "only is PMNet trained without memory modules. Transformer and Mamba have PMNet's number of parameters "
      "within 2%. Two kinds of controls decide whether there is a verdict: the Transformer must answer the easiest "
      "rows, and models that have only windows must not answer beyond them."};
}

}  // namespace

Report ProbeExperiment::report(const Results& found, const fs::path& folder) {
  const TaskResults results(*settings_, plan(), found);
  const ProbeText text = settings_->text();
  write_file_atomically(folder / "accuracy.csv", results.cell_table().csv());
  Report report{text.title, protocol(*settings_, text), {}};
  for (const Course& course : results.plan().courses) {
    const Probe probe{*settings_, text, results, course, folder};
    const bool several_lengths = loads_of(course).size() < course.cells.size();
    if (!settings_->judged_cells(course).empty()) {
      if (trains_pmnet(settings_->candidates)) report.findings.push_back(memory_finding(probe));
      report.findings.push_back(state_finding(probe));
    }
    if (several_lengths) report.findings.push_back(length_finding(probe));
    if (several_lengths && loads_of(course).size() > 1) report.findings.push_back(grid_finding(probe));
  }
  Finding published{"Published results"};
  Table table({"model", "setting", "result", "source"});
  for (const PublishedResult& row : text.published) table.add_row({row.model, row.setting, row.result, row.source});
  published.tables = {{"Of others, with models and training of their own; for orientation.", table}};
  if (!text.published.empty()) report.findings.push_back(published);
  Finding trainings{"Trainings"};
  trainings.tables = {results.training_table()};
  report.findings.push_back(trainings);
  return report;
}

}  // namespace pmnet
