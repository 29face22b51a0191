// Runs an experiment in a folder:
//   settings.json            all settings, program, machine, threads
//   parts/<name>/result.json what the part found; its presence says that the part is finished
//   parts/<name>/...         metrics.jsonl, model/, ckpt/ while unfinished
//   *.csv, *.svg, report.md, report.html
//   lock                     held while a process works there
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/framework/experiment.h"
#include "experiments/framework/registry.h"

namespace pmnet {

struct ExperimentRequest {
  std::string recipe = "cpu";  // a size, or a file that ends in .toml
  std::filesystem::path out;
  // In the order given, after the recipe; later ones win.
  std::vector<Assignment> settings;
};

// The experiment with its settings; unknown keys and bad values are UserErrors.
std::unique_ptr<Experiment> prepare_experiment(const ExperimentEntry& entry, const ExperimentRequest& request);

struct ExperimentSummary {
  bool finished = false;  // false: stopped by a signal; the same command resumes it
  Report report;          // when it is
  double seconds = 0;
};

// UserError, with nothing changed: the folder holds something else, or this experiment with other settings, or another
// process works there.
ExperimentSummary run_experiment(const ExperimentEntry& entry, const ExperimentRequest& request);

// The plan as text: parts, parameters, bytes, time from steps whose results are discarded. Writes nothing.
std::string plan_experiment(const ExperimentEntry& entry, const ExperimentRequest& request);

}  // namespace pmnet
