#include <fmt/format.h>

#include <algorithm>

#include "base/atomic_folder.h"
#include "experiments/copy/copy.h"
#include "experiments/framework/task_report.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;

// "accuracy-strict.svg" for the strict reading
std::string file_of(const std::string& picture, const Course& course) {
  return fmt::format("{}-{}.svg", picture, course.name.substr(0, course.name.find(' ')));
}

std::string accuracy_of(const CandidateSpec& candidate, const TaskCell& cell) {
  return fmt::format("exact-token accuracy of {} at N = {}", candidate.title, cell.length);
}

struct Readings {
  const CopySettings& settings;
  const TaskResults& results;
  const fs::path& folder;
  const CandidateSpec &pmnet, &window;

  Check pmnet_copies(const Course& course, const TaskCell& cell) const {
    return results.knows(accuracy_of(pmnet, cell), pmnet, course, cell);
  }
  Check window_guesses(const Course& course, const TaskCell& cell) const {
    return control(results.guesses(accuracy_of(window, cell), window, course, cell));
  }
};

Finding reach_finding(const Readings& all, const Course& strict) {
  const TaskCell cell = *std::find_if(strict.cells.begin(), strict.cells.end(),
                                      [&](const TaskCell& tested) { return tested.length > all.settings.reach(); });
  Finding finding;
  finding.heading = "Memory carries what no window can see";
  finding.claim = fmt::format(
      "At N = {}, where every byte to copy is just beyond the reach of the windows, PMNet is closer to all right "
      "than to chance, and the model without memory modules guesses.",
      cell.length);
  Check carried = all.pmnet_copies(strict, cell);
  carried.threshold = 0.5 * (1 + all.settings.task.chance());
  finding.checks = {carried, all.window_guesses(strict, cell)};
  return finding;
}

void claim_strict(const Readings& all, const Course& course, Finding& finding) {
  const TaskCell most = course.stages.back().hardest();
  finding.claim = fmt::format(
      "Trained on N up to {}, beyond the {} bytes that the windows reach, PMNet copies exactly; without memory modules "
      "the bytes cannot be known.",
      most.length, all.settings.reach());
  finding.checks = {all.pmnet_copies(course, most), all.window_guesses(course, most)};
}

void claim_paper(const Readings& all, const Course& course, Finding& finding) {
  const TaskCell most = course.stages.back().hardest(), longest = course.cells.back();
  finding.claim = fmt::format(
      "PMNet keeps near-perfect accuracy over the trained range, up to N = {}; the model without memory modules "
      "collapses at N = {}.",
      most.length, longest.length);
  const TaskResults::Accuracy collapsed = all.results.accuracy(all.window, course, longest);
  finding.checks = {all.pmnet_copies(course, most),
                    at_most(0.5, accuracy_of(all.window, longest), collapsed.interval, collapsed.over)};
  finding.remarks = {
      fmt::format("The byte to copy is N back from where it is predicted, and the windows reach {} bytes: this range "
                  "can be learned without memory, and a collapse past the trained lengths says nothing about reach.",
                  all.settings.reach())};
}

Finding accuracy_finding(const Readings& all, const Course& course) {
  Finding finding;
  finding.heading = fmt::format("Accuracy against length, {} (figure 4)", course.name);
  if (course.name == CopyExperiment::kStrict)
    claim_strict(all, course, finding);
  else
    claim_paper(all, course, finding);
  LineChart chart;
  chart.title = "Copy accuracy, " + course.name;
  chart.x_label = "N, bytes to copy";
  chart.y_label = "accuracy";
  chart.series = all.results.over_lengths(course, 1);
  for (Series& series : chart.series) series.name += ", exact token";
  for (Series& series : all.results.over_lengths(course, 1, "row_accuracy")) {
    series.name += ", whole copy";
    chart.series.push_back(std::move(series));
  }
  chart.markers = {{static_cast<double>(course.stages.back().most), "trained"}};
  if (all.settings.reach() <= course.cells.back().length)
    chart.markers.push_back({static_cast<double>(all.settings.reach()), "reach"});
  const std::string file = file_of("accuracy", course);
  write_chart(chart, (all.folder / file).string());
  finding.pictures = {{file, kSeedBandCaption}};
  return finding;
}

Finding training_finding(const Readings& all, const Course& course) {
  const bool curriculum = course.stages.size() > 1;
  std::vector<TrainingMetric> curves = {{"eval/loss", "Evaluation loss", "nats per byte of the copy"},
                                        {"train/grad_norm", "Gradient norm before clipping", "norm", Scale::kLog10}};
  if (curriculum) curves.push_back({"eval/largest_length", "Largest N of the curriculum", "bytes"});
  const std::string file = file_of("training", course);
  write_charts(training_charts(all.results.training_curves(all.folder, course), curves), (all.folder / file).string());
  Finding finding;
  finding.heading = fmt::format("Training, {} (figure 5)", course.name);
  finding.claim =
      "Gradients of PMNet spike when its memory begins to carry the copy, above those of the model without memory "
      "modules, and training continues.";
  finding.checks = {at_least(0, "log10 of the largest gradient norm of PMNet over that of PMNet (No Memory)",
                             all.results.norm_ratio("largest_norm", all.pmnet, course, all.window, course))};
  finding.pictures = {{file, kSeedBandCaption}};
  if (curriculum)
    finding.remarks = {
        "With the curriculum a batch is a function of the seed, the step and the largest N reached: models that get "
        "there at different steps see different batches. Without it (--set 'stages=[]') all see the same."};
  return finding;
}

std::vector<std::string> protocol(const CopySettings& settings) {
  return {
      fmt::format(
          "A text is BOS, N random bytes of {} different ones, a delimiter, and the same N bytes. Training draws N "
          "uniformly and scores the copy only. An exact-token accuracy is the share of copied bytes that the model "
          "finds likeliest, the true ones being fed; a whole copy has no mistake.",
          settings.task.symbols),
      "Every training keeps the weights with the best mean accuracy over the trained lengths on validation rows, and "
      "ends early when it copies nearly all of them. PMNet (No Memory) is trained without memory modules.",
      "The paper gives neither learning rate nor batch size nor number of steps: those here are ours."};
}

}  // namespace

Report CopyExperiment::report(const Results& found, const fs::path& folder) {
  const TaskResults results(settings_, plan(), found);
  write_file_atomically(folder / "accuracy.csv", results.cell_table().csv());
  const Readings all{settings_, results, folder, results.plan().find("pmnet"), results.plan().find("window")};
  Report report{"Copy", protocol(settings_), {}};
  for (const Course& course : results.plan().courses) {
    if (course.name == kStrict) report.findings.push_back(reach_finding(all, course));
    report.findings.push_back(accuracy_finding(all, course));
    report.findings.push_back(training_finding(all, course));
  }
  report.findings.back().tables = {results.training_table()};
  return report;
}

}  // namespace pmnet
