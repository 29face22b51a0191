#include <fmt/format.h>

#include <cmath>

#include "base/atomic_folder.h"
#include "experiments/framework/task_report.h"
#include "experiments/stability/stability.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using Kinds = StabilityExperiment;

// A line per candidate that is trained; `values` gives those of a course, one per seed.
template <typename Values>
LineChart over_contexts(const StabilitySettings& settings, const TaskResults& results, const char* title,
                        const char* y_label, Scale y_scale, const Values& values) {
  LineChart chart;
  chart.title = title;
  chart.x_label = "context, filler bytes at most";
  chart.y_label = y_label;
  chart.x_scale = Scale::kLog2;
  chart.y_scale = y_scale;
  const std::vector<double> contexts(settings.contexts.begin(), settings.contexts.end());
  for (const CandidateSpec& candidate : results.plan().candidates) {
    if (!candidate.trains()) continue;
    std::vector<std::vector<double>> per_context;
    for (const Course& course : results.plan().courses) per_context.push_back(values(candidate, course));
    chart.series.push_back(seed_band(candidate.title, contexts, per_context));
  }
  chart.markers = {{static_cast<double>(settings.reach()), "reach of the windows"}};
  return chart;
}

Finding rotation_finding(const StabilitySettings& settings, const TaskResults& results, const fs::path& folder) {
  const Course &shortest = results.plan().courses.front(), &longest = results.plan().courses.back();
  const CandidateSpec &phases = results.plan().find(Kinds::kPhases), &off = results.plan().candidates.back();
  const TaskCell cell = longest.cells.front();
  const int64_t from = settings.contexts.front(), to = settings.contexts.back();
  Finding finding;
  finding.heading = "Phase rotation over context length";
  finding.claim =
      "Constrained to phase rotations, memory is trained at any length: the fact is recalled, and gradient norms "
      "grow no faster than the square root of the length.";
  finding.checks = {
      results.knows(fmt::format("accuracy over a context of {} bytes", to), phases, longest, cell),
      at_most(0.5 * std::log10(static_cast<double>(to) / static_cast<double>(from)),
              fmt::format("log10 of the median gradient norm at {} over that at {} bytes", to, from),
              results.norm_ratio("median_norm", phases, longest, phases, shortest)),
      control(results.guesses(fmt::format("accuracy of the same weights over {} bytes without recurrence", to), off,
                              longest, cell))};
  const auto trained = [&](const char* measure) {
    return [&results, measure](const CandidateSpec& candidate, const Course& course) {
      return results.trained(candidate, course, measure);
    };
  };
  const auto tested = [&](const CandidateSpec& candidate, const Course& course) {
    return results.tested(candidate, course, course.cells.front());
  };
  write_charts(
      {over_contexts(settings, results, "Recall at the full context", "accuracy", Scale::kLinear, tested),
       over_contexts(settings, results, "Median gradient norm", "norm", Scale::kLog10, trained("median_norm")),
       over_contexts(settings, results, "Largest gradient norm", "norm", Scale::kLog10, trained("largest_norm"))},
      (folder / "context.svg").string());
  finding.pictures = {{"context.svg", kSeedBandCaption}};
  return finding;
}

// log10 of the norms of one kind of memory over those of the published one, at the longest context.
Interval against_phases(const TaskResults& results, const char* kind, const char* measure) {
  const Course& longest = results.plan().courses.back();
  return results.norm_ratio(measure, results.plan().find(kind), longest, results.plan().find(Kinds::kPhases), longest);
}

Finding constraint_finding(const StabilitySettings& settings, const TaskResults& results) {
  Finding finding;
  finding.heading = "Without the constraint";
  finding.claim =
      "Unconstrained memory, Phi(theta) = [theta, 0] and sums without wrapping, has gradients at least ten times "
      "larger.";
  finding.checks = {
      at_least(1,
               fmt::format("log10 of the largest gradient norm of unconstrained over rotating memory at {} bytes",
                           settings.contexts.back()),
               against_phases(results, Kinds::kSums, "largest_norm"))};
  return finding;
}

Finding normalization_finding(const StabilitySettings& settings, const TaskResults& results) {
  Finding finding;
  finding.heading = "Segment-aware normalisation";
  finding.claim = "Dividing the gradient of a write by the square root of the writes to its group keeps norms down.";
  finding.checks = {
      at_least(0,
               fmt::format("log10 of the median gradient norm without over with normalisation at {} bytes",
                           settings.contexts.back()),
               against_phases(results, Kinds::kPhasesRaw, "median_norm"))};
  return finding;
}

Finding training_finding(const StabilitySettings& settings, const TaskResults& results, const fs::path& folder) {
  write_charts(training_charts(results.training_curves(folder, results.plan().courses.back()),
                               {{"train/grad_norm", "Gradient norm before clipping", "norm", Scale::kLog10},
                                {"train/loss", "Training loss", "nats"},
                                {"eval/accuracy_at_hardest", "Recall at the full context", "accuracy"}}),
               (folder / "training.svg").string());
  Finding finding;
  finding.heading = "Trainings";
  finding.pictures = {{"training.svg", fmt::format("Trainings with {} bytes of context. {}", settings.contexts.back(),
                                                   kSeedBandCaption)}};
  finding.tables = {results.training_table()};
  return finding;
}

std::vector<std::string> protocol(const StabilitySettings& settings) {
  return {
      fmt::format(
          "One fact of {} values at the start of a text, filler of 0 to `context` bytes of {} different ones, then "
          "the question; only the answer is scored. Lengths are drawn evenly over their doublings. Every candidate is "
          "trained from the same weights on the same batches for the same {} steps, with gradients clipped to {}: the "
          "norms shown are those before.",
          settings.task.values, settings.task.fillers, settings.train.steps, settings.train.clip),
      "Phases are the published memory. Unconstrained memory has the same parameters; its features are the sums "
      "themselves, which are not wrapped. Accuracy is that of the best weights on questions at the full context."};
}

}  // namespace

Report StabilityExperiment::report(const Results& found, const fs::path& folder) {
  const TaskResults results(settings_, plan(), found);
  write_file_atomically(folder / "accuracy.csv", results.cell_table().csv());
  write_file_atomically(folder / "trainings.csv", results.training_table().table.csv());
  return {"Stability",
          protocol(settings_),
          {rotation_finding(settings_, results, folder), constraint_finding(settings_, results),
           normalization_finding(settings_, results), training_finding(settings_, results, folder)}};
}

}  // namespace pmnet
