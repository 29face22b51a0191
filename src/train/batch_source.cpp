#include "train/batch_source.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace pmnet {

BatchPart part_of(const Batch& batch, int64_t first_row, int64_t rows, at::Device device) {
  const int64_t T = batch.context;
  const auto view = [](const auto* data, std::vector<int64_t> shape, at::ScalarType type) {
    return at::from_blob(const_cast<std::remove_const_t<std::remove_pointer_t<decltype(data)>>*>(data), shape, type);
  };
  const Tensor ids = view(batch.ids.data() + first_row * (T + 1), {rows, T + 1}, at::kLong);
  const Tensor mask = view(batch.loss_mask.data() + first_row * T, {rows, T}, at::kByte);
  BatchPart part;
  part.sequence.ids = ids.narrow(1, 0, T).clone().to(device);
  part.sequence.targets = ids.narrow(1, 1, T).masked_fill(mask == 0, -1).to(device);
  const auto lengths = batch.lengths.begin() + first_row;
  if (std::any_of(lengths, lengths + rows, [&](int64_t length) { return length < T; }))
    part.lengths = view(batch.lengths.data() + first_row, {rows}, at::kLong).clone().to(device);
  part.samples.assign(batch.sample_ids.begin() + first_row, batch.sample_ids.begin() + first_row + rows);
  return part;
}

int64_t scored_bytes(const Batch& batch) {
  return std::accumulate(batch.loss_mask.begin(), batch.loss_mask.end(), int64_t{0});
}

BatchSource::BatchSource(std::shared_ptr<const DocumentSet> documents, const TrainConfig& config,
                         const Framing& framing, const ProcessGroup& group, int64_t first_step)
    : documents_(std::move(documents)), stages_(config.stages()), step_(first_step) {
  options_.mode = config.carry                   ? SampleMode::Carry
                  : config.samples == "document" ? SampleMode::PerDocument
                                                 : SampleMode::Packed;
  options_.rows = config.batch;
  options_.seed = static_cast<uint64_t>(config.seed);
  options_.framing = framing;
  options_.rank = group.rank();
  options_.world = group.world();
}

void BatchSource::enter_stage() {
  while (stage_ + 1 < stages_.size() && stages_[stage_ + 1].first_step <= step_) ++stage_;
  options_.context = stages_[stage_].context;
  options_.first_step = stages_[stage_].first_step;
  options_.stage = stage_;
  queue_ = std::make_unique<BatchQueue>(Batcher(documents_, options_), step_);
}

std::optional<Batch> BatchSource::next(StopCheck& stop) {
  const bool stage_ends = stage_ + 1 < stages_.size() && stages_[stage_ + 1].first_step <= step_;
  if (queue_ == nullptr || stage_ends) enter_stage();
  while (!stop.requested()) {
    if (std::optional<Batch> batch = queue_->next_within(std::chrono::milliseconds(100))) {
      ++step_;
      return batch;
    }
  }
  return std::nullopt;
}

}  // namespace pmnet
