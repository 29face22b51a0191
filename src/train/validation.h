#pragma once
#include <memory>
#include <optional>

#include "config/train_config.h"
#include "data/batcher.h"
#include "engine/engine.h"
#include "report/metrics_log.h"
#include "train/process_group.h"
#include "train/stop_check.h"

namespace pmnet {

// Bits per byte on the same held-out windows every time, whatever the number of ranks. EOS is scored, BOS is not.
class Validation {
 public:
  Validation(std::shared_ptr<const DocumentSet> held_out, const TrainConfig& config, const Framing& framing,
             ProcessGroup& group);

  // Called on every rank; empty on all of them when one was asked to stop.
  std::optional<double> bits_per_byte(const LanguageModel& model, StopCheck& stop);

 private:
  double loss_of(const std::shared_ptr<const Engine>& engine, const Batch& batch, StopCheck& stop) const;

  TrainConfig config_;
  ProcessGroup& group_;
  Batcher batcher_;
  int64_t windows_;  // to score
};

// How the memory is used by one row of a batch: per level the entropy (bits) and the largest share of the routing load,
// and the mean absolute phase. Empty for models without memory.
Metrics memory_metrics(const LanguageModel& model, const Batch& batch, const MemorySwitches& switches);

}  // namespace pmnet
