// Documents -> the batches of this rank, step by step, made ahead of time by a thread.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "config/train_config.h"
#include "data/batcher.h"
#include "train/loop.h"

namespace pmnet {

class BatchSource : public BatchProvider {
 public:
  BatchSource(std::shared_ptr<const DocumentSet> documents, const TrainConfig& config, const Framing& framing,
              const ProcessGroup& group);

  std::optional<Batch> next(int64_t step, StopCheck& stop) override;

 private:
  void enter_stage(int64_t step);

  std::shared_ptr<const DocumentSet> documents_;
  BatchOptions options_;
  std::vector<ContextStage> stages_;
  size_t stage_ = 0;
  std::unique_ptr<BatchQueue> queue_;
};

}  // namespace pmnet
