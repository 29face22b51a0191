#include "train/batch_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace pmnet {

BatchPart part_of(const Batch& batch, int64_t first_row, int64_t rows, at::Device device) {
  const int64_t T = batch.context;
  const auto view = [](const auto* data, const std::vector<int64_t>& shape, at::ScalarType type) {
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

}  // namespace pmnet
