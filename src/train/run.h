// A whole training run: settings and a folder in, a trained model and its logs out.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>

#include "config/train_config.h"
#include "train/process_group.h"
#include "train/trainer.h"

namespace pmnet {

struct RunRequest {
  std::filesystem::path out;
  bool resume = false;  // continue the run in the folder; start it where there is none
  bool force = false;   // start even if the memory estimate exceeds what is available
  // Called after every step on every rank; false stops the run like a signal.
  std::function<bool(const StepReport& report, const TrainerProgress& progress)> on_step = {};
};

struct RunSummary {
  enum class End {
    kFinished,
    kFinishedBefore,  // resumed at its last step: nothing was left to do
    kStopped,
    kNotFinite,
  };
  End end = End::kStopped;
  int64_t step = 0;
  double train_bpb = 0;  // of the last step
  std::optional<double> validation_bpb;
  std::filesystem::path checkpoint;  // the last one saved; empty when there is none
  double seconds = 0;
  double bytes_per_second = 0;
};

// Every rank calls it. SIGINT and SIGTERM end it cleanly: the unfinished step is discarded, the last one saved.
RunSummary run_training(const TrainConfig& config, const RunRequest& request, ProcessGroup& group);

}  // namespace pmnet
