// Trains a model on batches that a function makes: the synthetic tasks.
#pragma once
#include <functional>
#include <string>

#include "config/model_config.h"
#include "config/train_config.h"
#include "data/batcher.h"
#include "experiments/framework/experiment.h"
#include "model/language_model.h"
#include "report/metrics_log.h"

namespace pmnet {

struct TaskTraining {
  ModelConfig model;
  std::filesystem::path begin_from = {};  // model folder whose weights are the start; empty: random ones
  TrainConfig config;  // steps, optimizer, guard, memory switches, seed of the weights, log_every, eval_every

  // A pure function of the step and the stage of the curriculum, so that every model of a seed sees the same bytes.
  std::function<Batch(int64_t step, int64_t stage)> batch;
  // Factor of the learning rate, so many steps after a stage began; empty: 1.
  std::function<double(int64_t stage, int64_t steps)> rate;

  // Every config.eval_every steps and at the end.
  struct Evaluation {
    double score = 0;         // what the best weights are chosen by: higher is better, whatever the stage
    double loss = 0;          // settles ties within a stage: of all that answer every row, the surest is kept
    bool next_stage = false;  // of the curriculum
    bool finished = false;    // good enough: the training ends here
    Metrics metrics;
  };
  std::function<Evaluation(const LanguageModel& model, int64_t stage)> evaluate;
  int64_t patience = 0;  // steps without a better score that end the training; 0: any number
};

struct TaskOutcome {
  int64_t steps = 0;      // done
  int64_t best_step = 0;  // whose weights are in <folder>/model
  double best_score = 0;
  int64_t stage = 0;                         // reached
  int64_t skipped = 0;                       // updates that were not finite
  bool diverged = false;                     // not finite config.max_not_finite times in a row: ended there
  std::string batch_hash;                    // of all batches in order
  double largest_norm = 0, median_norm = 0;  // of the gradients before clipping
  double last_loss = 0;                      // mean over the last tenth of the steps, nats
  double seconds = 0;                        // of training, evaluations included, over all sessions
};
nlohmann::json to_json(const TaskOutcome& outcome);

// Leaves the best weights in <folder>/model, the curves in <folder>/metrics.jsonl. Resumes from <folder>/ckpt, bit by
// bit; when stopped it saves there and throws StopRequested.
TaskOutcome train_on_task(const TaskTraining& training, PartContext& context);

// What all steps cost, from the sizes of the first batch.
PartCost training_cost(const TaskTraining& training);

// Seconds of one step, the first being thrown away.
double time_task_step(const TaskTraining& training);

}  // namespace pmnet
