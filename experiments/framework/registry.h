// The table of experiments. To add one: a folder with its task, settings and report, a function make_<name>_experiment,
// declared here, a line in registry.cpp, and recipes/experiments/<name>.<size>.toml.
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

std::unique_ptr<Experiment> make_modular_experiment();
std::unique_ptr<Experiment> make_mqar_experiment();
std::unique_ptr<Experiment> make_induction_experiment();
std::unique_ptr<Experiment> make_selective_copy_experiment();
std::unique_ptr<Experiment> make_in_context_recall_experiment();
std::unique_ptr<Experiment> make_needle_experiment();
std::unique_ptr<Experiment> make_copy_experiment();
std::unique_ptr<Experiment> make_compare_experiment();
std::unique_ptr<Experiment> make_long_context_experiment();
std::unique_ptr<Experiment> make_anchors_experiment();
std::unique_ptr<Experiment> make_stability_experiment();

}  // namespace pmnet
