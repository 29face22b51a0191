// What the experiments that train models share: the shape of PMNet, how it is trained, and how synthetic tasks are
// trained and tested. The sizes are in recipes/experiments.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "config/train_config.h"
#include "experiments/framework/candidates.h"
#include "experiments/framework/settings.h"
#include "experiments/framework/task.h"

namespace pmnet {

struct TrainingSettings : Settings {
  int64_t seeds = 3;
  std::string preset;              // fills in the shape
  PmnetConfig shape;               // the baselines match its parameters
  int64_t transformer_layers = 0;  // 0: as many as PMNet; attention needs two to find what followed a byte before
  TrainConfig train;
  std::vector<double> learning_rates = {1e-3};  // each model is trained with all of them; the best counts
  std::string begin_from;                       // folder of an experiment whose weights the trainings start from

  TrainingSettings();
  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
  void apply_preset() override;

  PmnetConfig pmnet_config() const;
  ModelConfig model_config(CandidateKind kind) const;
  TrainConfig train_config(const CandidateSpec& candidate, double learning_rate, int64_t seed) const;
  CandidateSpec candidate(CandidateKind kind, int64_t limit = 0) const;
  // Bytes back that a chain of windows can reach.
  int64_t reach() const { return shape.num_layers * (shape.sliding_window - 1); }
};

// Of experiments on synthetic tasks.
struct TaskSettings : TrainingSettings {
  int64_t first_seed = 1;              // the trainings have this seed and those after it
  std::vector<double> baseline_rates;  // learning rates of Transformer and Mamba; empty: those of PMNet
  int64_t baseline_first_load = 0;     // largest load of a stage that only these begin with; 0: none
  int64_t samples = 64;                // rows per cell and seed, in tests
  int64_t test_bytes = 0;              // of a cell, in tests: fewer rows of long ones; 0: no limit
  int64_t validation_samples = 64;     // rows per cell, in the evaluations of a training
  int64_t training_rows = 0;           // different ones; 0: every row is fresh
  std::vector<int64_t> stages;         // of the curriculum: largest lengths before the last stage, ascending
  std::vector<int64_t> stage_loads;    // largest load of each stage, the last included; empty: all loads in every one
  std::vector<double> stage_rates;     // of each stage, the last included: factors of the learning rate; empty: 1
  int64_t stage_decay = 0;  // steps after which a stage's learning rate is half of what it began with; 0: never
  std::vector<int64_t> stage_batch;  // likewise: samples per step; empty: `batch`
  double advance_at = 0.9;           // accuracy on a stage's hardest rows that begins the next
  double stop_at = 0.995;            // accuracy in the last stage that ends a training; 0: never
  int64_t patience = 0;              // steps without a better score that end a training; 0: any number

  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
  std::vector<int64_t> seed_numbers() const;
  const std::vector<double>& rates_of(const CandidateSpec& candidate) const;
  // Those of a course, and for baselines the one that they begin with: attention finds what followed a key among few of
  // them first, where two keys that share an address of PMNet's memory cost too little to be told apart.
  std::vector<TaskStage> stages_of(const CandidateSpec& candidate, std::vector<TaskStage> of_course) const;
  // The stages up to `last`, whose lengths and loads are those asked for.
  std::vector<TaskStage> stages_to(const TaskStage& last) const;
  // Rows of a cell in tests.
  int64_t samples_of(const Task& task, const TaskCell& cell) const;
};

}  // namespace pmnet
