// The training loop: batches in, one optimizer step after another, evaluations and checkpoints in between. What a run
// trains on and how it is judged are interfaces, so that 'pmnet train' and the experiments share the loop.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "train/run_checkpoint.h"
#include "train/trainer.h"

namespace pmnet {

class BatchProvider {
 public:
  virtual ~BatchProvider() = default;
  // This rank's rows of the batch of `step` (from 0). Called once per step in ascending order, from the step at which
  // the run starts or resumes. Empty when asked to stop.
  virtual std::optional<Batch> next(int64_t step, StopCheck& stop) = 0;
};

struct ValidationResult {
  std::optional<double> bits_per_byte;  // of held-out text; checkpoint.keep_best keeps the weights with the lowest
  bool finished = false;                // good enough: training ends here
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // Judges the weights after `step` steps. Called on every rank; empty on all of them when one was asked to stop.
  virtual std::optional<ValidationResult> evaluate(const LanguageModel& model, int64_t step, StopCheck& stop) = 0;
};

// What else happens during a run. The defaults do nothing.
class LoopHooks {
 public:
  virtual ~LoopHooks() = default;
  // After every step, before its evaluation and checkpoint; `waited` are the seconds spent waiting for the batch.
  virtual void on_step(const Batch& /*batch*/, const StepReport& /*report*/, double /*waited*/) {}
  virtual void on_warning(const std::string& /*sentence*/) {}
  // What a checkpoint must hold besides weights, optimizer and progress, such as the stage of a curriculum. restore()
  // receives it when the run resumes.
  virtual nlohmann::json extra_state() const { return nullptr; }
  virtual void restore(const nlohmann::json& /*state*/) {}
};

enum class LoopEnd { kFinished, kStopped, kNotFinite };

class TrainingLoop {
 public:
  // Everything must outlive the loop. The settings decide the number of steps, the optimizer, and how often to
  // evaluate and save.
  struct Setup {
    LanguageModel& model;
    const ModelConfig& model_config;
    const TrainConfig& config;
    std::filesystem::path checkpoints;  // folder of the checkpoints
    ProcessGroup& group;
    StopCheck& stop;
    LoopHooks& hooks;
  };
  explicit TrainingLoop(const Setup& setup);

  // Continues from a checkpoint whose weights the model holds already.
  void resume(const RunCheckpoint& checkpoint);

  LoopEnd run(BatchProvider& batches, Evaluator& evaluator);

  // Of the steps from now on, such as those of a stage of a curriculum; not part of a checkpoint.
  void scale_learning_rate(double factor) { trainer_.scale_learning_rate(factor); }

  // Saves the current step unless it is saved already, and removes checkpoints that are no longer kept. A failure is a
  // warning, so that a full disk does not end training; require_saved() makes it a UserError.
  void save();
  void require_saved() const;

  bool due(int64_t interval) const;
  const TrainerProgress& progress() const { return trainer_.progress(); }
  RunRecord& record() { return record_; }
  const std::filesystem::path& last_checkpoint() const { return last_checkpoint_; }  // empty: none yet

 private:
  bool step(BatchProvider& batches);  // false: asked to stop
  void evaluate(Evaluator& evaluator);
  bool save_is_due();
  void write_checkpoint(const std::optional<ModelState>& carried);

  LanguageModel& model_;
  const ModelConfig& model_config_;
  const TrainConfig& config_;
  std::filesystem::path checkpoints_;
  ProcessGroup& group_;
  StopCheck& stop_;
  LoopHooks& hooks_;
  Trainer trainer_;
  RunRecord record_;
  std::filesystem::path last_checkpoint_;
  int64_t saved_step_ = -1;
  double saved_at_;  // steady_seconds()
  bool good_enough_ = false;
};

}  // namespace pmnet
