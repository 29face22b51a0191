// Documents -> this rank's batches step by step, and their rows as tensors.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "config/train_config.h"
#include "data/batcher.h"
#include "train/sequence_loss.h"
#include "train/stop_check.h"

namespace pmnet {

// Some rows of a batch on the model's device.
struct BatchPart {
  SequenceBatch sequence;         // unscored targets are -1
  std::optional<Tensor> lengths;  // when some row is shorter than the context
  std::vector<int64_t> samples;
};
BatchPart part_of(const Batch& batch, int64_t first_row, int64_t rows, at::Device device);

int64_t scored_bytes(const Batch& batch);

class BatchSource {
 public:
  BatchSource(std::shared_ptr<const DocumentSet> documents, const TrainConfig& config, const Framing& framing,
              const ProcessGroup& group, int64_t first_step);

  // The batch of the next step; empty when asked to stop.
  std::optional<Batch> next(StopCheck& stop);

 private:
  void enter_stage();

  std::shared_ptr<const DocumentSet> documents_;
  BatchOptions options_;
  std::vector<ContextStage> stages_;
  size_t stage_ = 0;
  int64_t step_;
  std::unique_ptr<BatchQueue> queue_;
};

}  // namespace pmnet
