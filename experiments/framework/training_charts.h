// Curves of trainings: a line per model with the band of its seeds.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "report/plot.h"

namespace pmnet {

inline constexpr const char* kSeedBandCaption = "Mean over seeds; the bands go from the least to the greatest.";

struct TrainingMetric {
  std::string name, title, y_label;
  Scale y_scale = Scale::kLinear;
};

struct SeedCurves {
  std::string title;
  int colour;  // its number in the palette: a model looks alike in all charts of a report
  std::vector<std::filesystem::path> folders;  // one per seed, with the metrics.jsonl of its training
};

// One chart per metric over the steps.
std::vector<LineChart> training_charts(const std::vector<SeedCurves>& models,
                                       const std::vector<TrainingMetric>& metrics);

}  // namespace pmnet
