// An experiment on a synthetic task: candidates are trained on courses, with several seeds and learning rates, and
// tested cell by cell. A new probe is a Task, settings, a TaskPlan and a report.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "experiments/framework/experiment.h"
#include "experiments/framework/task.h"
#include "experiments/framework/task_settings.h"
#include "experiments/framework/task_training.h"

namespace pmnet {

struct Course {
  std::string name;  // of parts, such as "strict reading"; empty when there is only one
  std::shared_ptr<const Task> task;
  std::vector<TaskStage> stages;  // in order; the last is what the candidates shall learn
  std::vector<TaskCell> cells;    // tested; those within the last stage also choose the best weights
  bool beyond_windows = true;     // rows longer than the windows reach ask for what is further back
  std::shared_ptr<const Task> training_task = nullptr;  // whose rows training draws; none: task
};

struct TaskPlan {
  std::vector<CandidateSpec> candidates;
  std::vector<Course> courses;

  const CandidateSpec& find(const std::string& name) const;  // there is one
};

// "train pmnet, strict reading, lr 0.001, seed 1"; the learning rate only where there are several.
std::string train_part_name(const TaskSettings& settings, const CandidateSpec& candidate, const Course& course,
                            double learning_rate, int64_t seed);
std::string test_part_name(const CandidateSpec& candidate, const Course& course, int64_t seed);

class TaskExperiment : public Experiment {
 public:
  std::vector<Part> parts() override;

  virtual const TaskSettings& task_settings() const = 0;
  virtual TaskPlan plan() const = 0;

 private:
  Part train_part(const CandidateSpec& candidate, const Course& course, double learning_rate, int64_t seed) const;
  Part test_part(const CandidateSpec& candidate, const Course& course, int64_t seed) const;
};

// The training of one part. `begin_from` of the settings applies.
TaskTraining task_training(const TaskSettings& settings, const CandidateSpec& candidate, Course course,
                           double learning_rate, int64_t seed);

}  // namespace pmnet
