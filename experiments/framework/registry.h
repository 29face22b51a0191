// The table of experiments. To add one: a folder with its task, settings and report, a line in registry.cpp, and
// recipes/experiments/<name>.<size>.toml.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "experiments/framework/experiment.h"

namespace pmnet {

struct ExperimentEntry {
  const char* name;     // of the command: pmnet experiment <name>
  const char* summary;  // one line for --help
  std::unique_ptr<Experiment> (*make)();
};

std::span<const ExperimentEntry> experiment_table();              // in the order of `pmnet experiment all`
const ExperimentEntry& find_experiment(const std::string& name);  // UserError naming the closest

}  // namespace pmnet
