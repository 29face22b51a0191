// What the reports of the synthetic tasks share.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/framework/experiment.h"
#include "report/plot.h"

namespace pmnet {

inline constexpr double kLearned = 0.95;       // accuracy that counts as knowing
inline constexpr double kChanceMargin = 0.10;  // above chance that still counts as guessing

// A check of an accuracy: over seeds, or over the trials of the only one.
Check accuracy_check(const std::string& what, const std::vector<double>& per_seed, int64_t trials);

// One training as the report names it.
struct NamedTraining {
  std::string title;  // the model, and what sets it apart
  int64_t seed = 0;
  std::string part;
  int64_t parameters = 0;
};
NamedTable training_table(const Results& results, const std::vector<NamedTraining>& trainings);

// One chart per metric over the steps: a line per title, the mean over its seeds, with a band from the least to the
// greatest.
struct WantedCurve {
  std::string metric, title, y_label;
  Scale y_scale = Scale::kLinear;
};
std::vector<LineChart> training_charts(const std::filesystem::path& folder, const std::vector<NamedTraining>& trainings,
                                       const std::vector<WantedCurve>& wanted);

}  // namespace pmnet
