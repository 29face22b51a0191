// What a run would take, for --dry-run.
#pragma once
#include <vector>

#include "config/costs.h"
#include "config/train_config.h"
#include "train/process_group.h"

namespace pmnet {

struct RunEstimate {
  int64_t parameters = 0;
  std::vector<CostPart> memory;  // bytes, all ranks of this machine
  double available_memory = 0;
  int64_t steps = 0;
  double bytes_per_step = 0;
  double seconds_per_step = 0;
};
// From the sizes of the model and from one or two training steps, which are discarded.
RunEstimate estimate_run(const TrainConfig& config, bool force, ProcessGroup& group);

}  // namespace pmnet
