// What the reports of synthetic tasks are made of: results by candidate, course and cell, the checks and charts on
// them.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/framework/experiment.h"
#include "experiments/framework/task_experiment.h"
#include "experiments/framework/training_charts.h"

namespace pmnet {

inline constexpr double kLearned = 0.95;       // accuracy that counts as knowing
inline constexpr double kChanceMargin = 0.10;  // above chance that still counts as guessing

// A task experiment that is finished.
class TaskResults {
 public:
  TaskResults(const TaskSettings& settings, const TaskPlan& plan, const Results& results);

  const TaskPlan& plan() const { return plan_; }
  // What was measured in a cell, per seed; empty where it was not tested.
  std::vector<double> tested(const CandidateSpec& candidate, const Course& course, const TaskCell& cell,
                             const std::string& measure = "accuracy") const;
  // What a training found, per seed, with the learning rate that was best.
  std::vector<double> trained(const CandidateSpec& candidate, const Course& course, const std::string& measure) const;

  // "accuracy of PMNet ..." over seeds, or over the answers of the only one.
  struct Accuracy {
    Interval interval;
    std::string over;
  };
  Accuracy accuracy(const CandidateSpec& candidate, const Course& course, const TaskCell& cell) const;
  // The candidate knows, or, when it is a control, guesses.
  Check knows(const std::string& what, const CandidateSpec& candidate, const Course& course,
              const TaskCell& cell) const;
  Check guesses(const std::string& what, const CandidateSpec& candidate, const Course& course,
                const TaskCell& cell) const;
  // log10 of one training's gradient norms over another's, seed by seed.
  Interval norm_ratio(const std::string& measure, const CandidateSpec& above, const Course& above_course,
                      const CandidateSpec& below, const Course& below_course) const;

  // A line per candidate over the lengths of one load, with the bands of the seeds.
  std::vector<Series> over_lengths(const Course& course, int64_t load, const std::string& measure = "accuracy") const;
  // Lengths to the right, loads downward.
  HeatMap heat_map(const CandidateSpec& candidate, const Course& course) const;
  Table cell_table() const;  // every number, for .csv files
  NamedTable training_table() const;
  // Of the trainings with the best learning rates; `folder` is the experiment's.
  std::vector<SeedCurves> training_curves(const std::filesystem::path& folder, const Course& course) const;

 private:
  double best_rate(const CandidateSpec& candidate, const Course& course, int64_t seed) const;

  const TaskSettings& settings_;
  TaskPlan plan_;
  const Results& results_;
};

}  // namespace pmnet
