// The table of experiments. To add one: a function make_<name>_experiment, declared here, and a line in registry.cpp.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/framework/experiment.h"

namespace pmnet {

enum class Recipe { kPaper, kCpu, kSmoke };
const std::vector<std::string>& recipe_names();  // paper, cpu, smoke
Recipe recipe_of(const std::string& name);       // UserError naming the closest
const std::string& recipe_name(Recipe recipe);

struct ExperimentEntry {
  const char* name;     // of the command: pmnet experiment <name>
  const char* summary;  // one line for --help
  std::unique_ptr<Experiment> (*make)(Recipe recipe);
};

std::span<const ExperimentEntry> experiment_table();              // in the order of `pmnet experiment all`
const ExperimentEntry& find_experiment(const std::string& name);  // UserError naming the closest

std::unique_ptr<Experiment> make_recall_experiment(Recipe recipe);
std::unique_ptr<Experiment> make_copy_experiment(Recipe recipe);
std::unique_ptr<Experiment> make_compare_experiment(Recipe recipe);
std::unique_ptr<Experiment> make_long_context_experiment(Recipe recipe);
std::unique_ptr<Experiment> make_anchors_experiment(Recipe recipe);
std::unique_ptr<Experiment> make_stability_experiment(Recipe recipe);

}  // namespace pmnet
