// A whole training run: settings and a folder in, a trained model and its logs out.
#pragma once
#include <filesystem>
#include <optional>
#include <vector>

#include "config/costs.h"
#include "config/train_config.h"
#include "train/process_group.h"

namespace pmnet {

struct RunRequest {
  std::filesystem::path out;
  bool resume = false;  // go on with the run in the folder; start it where there is none
  bool force = false;   // even when memory seems too small
};

struct RunSummary {
  enum class End { kFinished, kStopped, kNotFinite };
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

// What a run would take, from the sizes and from steps that are made and thrown away.
struct RunEstimate {
  int64_t parameters = 0;
  std::vector<CostPart> memory;  // bytes, all ranks of this machine
  double available_memory = 0;
  int64_t steps = 0;
  double bytes_per_step = 0;
  double seconds_per_step = 0;
};
RunEstimate estimate_run(const TrainConfig& config, bool force, ProcessGroup& group);

}  // namespace pmnet
