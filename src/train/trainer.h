// One optimizer step after another. What a step does is a function of (settings, weights, batch, step number): a run
// that is resumed continues bit by bit as if it had never stopped.
#pragma once
#include <optional>
#include <vector>

#include "config/train_config.h"
#include "data/batcher.h"
#include "model/language_model.h"
#include "train/gradient_reducer.h"
#include "train/optimizer.h"
#include "train/process_group.h"
#include "train/sample_parallel.h"
#include "train/schedule.h"
#include "train/spike_guard.h"
#include "train/stop_check.h"

namespace pmnet {

enum class StepOutcome { kUpdated, kNotFinite, kSpike, kStopped };

struct StepReport {
  StepOutcome outcome = StepOutcome::kStopped;
  double loss = 0;           // mean over the scored bytes of the whole batch, nats
  int64_t scored = 0;        // bytes that count in the loss, all ranks together
  int64_t positions = 0;     // bytes that go through the model, prompts and padding included, all ranks together
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
};

// How far a run has come, besides its tensors.
struct TrainerProgress {
  int64_t step = 0;   // completed, skipped updates included
  int64_t bytes = 0;  // that went through the model, whether scored or not
  int64_t skipped = 0;
  int64_t not_finite_in_a_row = 0;
  SpikeGuard spikes;
};

MemorySwitches memory_switches(const TrainConfig& config);

class Trainer {
 public:
  // The model must outlive the trainer.
  Trainer(LanguageModel& model, const TrainConfig& config, ProcessGroup& group);

  // One step with this rank's rows. kStopped: nothing has changed, on any rank.
  StepReport step(const Batch& batch, StopCheck& stop);

  // Factor of the schedule's learning rate in the steps from now on.
  void scale_learning_rate(double factor) { rate_factor_ = factor; }

  TrainerProgress& progress() { return progress_; }
  const TrainerProgress& progress() const { return progress_; }
  AdamW& optimizer() { return optimizer_; }

  // The memory that the rows of all ranks carry to the next step; empty when none do. Every rank must call.
  std::optional<ModelState> gather_carried();
  void set_carried(const ModelState& rows_of_all_ranks);

 private:
  struct Start {
    int64_t scored = 0, positions = 0;
    bool stop = false;
  };
  Start agree_on_start(const Batch& batch, StopCheck& stop);
  // Leaves the gradients of the rank's mean loss in .grad; gives the sum of losses.
  double forward_backward(const Batch& batch, const Start& start, StopCheck& stop, std::vector<ModelState>& carried);
  ModelState initial_state(const Batch& batch, int64_t first_row, int64_t rows) const;
  StepOutcome judge(const StepReport& report);

  LanguageModel& model_;
  TrainConfig config_;
  ProcessGroup& group_;
  std::vector<std::pair<std::string, Tensor>> parameters_;
  AdamW optimizer_;
  Schedule schedule_;
  double rate_factor_ = 1;
  std::unique_ptr<GradientReducer> reducer_;
  SampleParallel samples_;
  TrainerProgress progress_;
  std::vector<ModelState> carried_;  // one per row of this rank
};

}  // namespace pmnet
