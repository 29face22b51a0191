// Rows of a batch as tensors on the model's device.
#pragma once
#include <optional>
#include <vector>

#include "data/batcher.h"
#include "train/sequence_loss.h"

namespace pmnet {

struct BatchPart {
  SequenceBatch sequence;         // unscored targets are -1
  std::optional<Tensor> lengths;  // when some row is shorter than the context
  std::vector<int64_t> samples;
};
BatchPart part_of(const Batch& batch, int64_t first_row, int64_t rows, at::Device device);

int64_t scored_bytes(const Batch& batch);

}  // namespace pmnet
