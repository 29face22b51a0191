#include "train/batch_source.h"

namespace pmnet {

BatchSource::BatchSource(std::shared_ptr<const DocumentSet> documents, const TrainConfig& config,
                         const Framing& framing, const ProcessGroup& group)
    : documents_(std::move(documents)), stages_(config.stages()) {
  options_.mode = config.carry ? SampleMode::kCarry : config.samples;
  options_.rows = config.batch;
  options_.seed = static_cast<uint64_t>(config.seed);
  options_.framing = framing;
  options_.rank = group.rank();
  options_.world = group.world();
}

void BatchSource::enter_stage(int64_t step) {
  while (stage_ + 1 < stages_.size() && stages_[stage_ + 1].first_step <= step) ++stage_;
  options_.context = stages_[stage_].context;
  options_.first_step = stages_[stage_].first_step;
  options_.stage = stage_;
  queue_ = std::make_unique<BatchQueue>(Batcher(documents_, options_), step);
}

std::optional<Batch> BatchSource::next(int64_t step, StopCheck& stop) {
  const bool stage_ends = stage_ + 1 < stages_.size() && stages_[stage_ + 1].first_step <= step;
  if (queue_ == nullptr || stage_ends) enter_stage(step);
  while (!stop.requested())
    if (std::optional<Batch> batch = queue_->next_within(std::chrono::milliseconds(100))) return batch;
  return std::nullopt;
}

}  // namespace pmnet
