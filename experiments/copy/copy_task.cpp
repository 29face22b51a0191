#include "experiments/copy/copy_task.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/hash.h"
#include "data/permutation.h"
#include "engine/session.h"

namespace pmnet {

namespace {

// Keys of the random numbers, so that training and test never share a sample.
constexpr uint64_t kTrainingKey = 0x6374, kTestKey = 0x6371;

std::vector<int64_t> random_bytes(const CopyTask& task, int64_t length, uint64_t key) {
  std::vector<int64_t> bytes;
  for (int64_t i = 0; i < length; ++i)
    bytes.push_back(
        static_cast<int64_t>(splitmix64(key, static_cast<uint64_t>(i)) % static_cast<uint64_t>(task.symbols)));
  return bytes;
}

}  // namespace

Batch make_copy_batch(const CopyTask& task, int64_t least, int64_t most, uint64_t seed, int64_t step, int64_t rows) {
  Batch batch;
  batch.step = step;
  batch.rows = rows;
  std::vector<std::vector<int64_t>> sources;
  int64_t longest = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t number = step * rows + row;
    const uint64_t key = splitmix64(splitmix64(kTrainingKey, seed), static_cast<uint64_t>(number));
    const int64_t length =
        least + static_cast<int64_t>(splitmix64(key, uint64_t{1} << 40) % static_cast<uint64_t>(most - least + 1));
    sources.push_back(random_bytes(task, length, key));
    longest = std::max(longest, length);
    batch.sample_ids.push_back(number);
  }
  batch.context = 2 * longest + 1;
  batch.ids.assign(static_cast<size_t>(rows * (batch.context + 1)), 0);
  batch.loss_mask.assign(static_cast<size_t>(rows * batch.context), 0);
  batch.continues.assign(static_cast<size_t>(rows), 0);
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<int64_t>& source = sources[static_cast<size_t>(row)];
    auto id = batch.ids.begin() + row * (batch.context + 1);
    *id++ = task.bos;
    id = std::copy(source.begin(), source.end(), id);
    *id++ = task.delimiter;
    std::copy(source.begin(), source.end(), id);
    const auto first = batch.loss_mask.begin() + row * batch.context + std::ssize(source) + 1;
    std::fill(first, first + std::ssize(source), uint8_t{1});
    batch.lengths.push_back(2 * std::ssize(source) + 1);
  }
  batch.hash = hash_batch(batch);
  return batch;
}

CopyScore score_copy(const LanguageModel& model, const CopyTask& task, int64_t length, int64_t samples, uint64_t seed,
                     const std::function<void()>& between) {
  constexpr int64_t kBytesAtOnce = 16'384;  // of all streams: bounds the memory for logits
  at::NoGradGuard no_grad;
  const std::shared_ptr<const Engine> engine = make_engine(model);
  const int64_t most_rows = std::clamp<int64_t>(kBytesAtOnce / length, 1, samples);
  int64_t right_tokens = 0, right_sequences = 0;
  double loss = 0;
  for (int64_t done = 0; done < samples; done += most_rows) {
    if (between) between();
    const int64_t rows = std::min(most_rows, samples - done);
    std::vector<int64_t> bytes;
    for (int64_t row = 0; row < rows; ++row) {
      const uint64_t key = splitmix64(splitmix64(kTestKey, seed), static_cast<uint64_t>(done + row));
      const std::vector<int64_t> source = random_bytes(task, length, key);
      bytes.insert(bytes.end(), source.begin(), source.end());
    }
    const Tensor source = at::tensor(bytes, at::kLong).view({rows, length});
    const auto column = [&](int64_t id) { return at::full({rows, 1}, id, at::kLong); };
    Session session(engine, rows);
    session.read(at::cat({column(task.bos), source}, 1));
    const Tensor fed = at::cat({column(task.delimiter), source.narrow(1, 0, length - 1)}, 1);
    const Tensor logits = session.feed(fed);
    const Tensor right = logits.argmax(-1) == source;  // [rows, length]
    right_tokens += right.sum().item<int64_t>();
    right_sequences += right.all(1).sum().item<int64_t>();
    loss -= logits.log_softmax(-1).gather(2, source.unsqueeze(2)).sum(at::kDouble).item<double>();
  }
  const double tokens = static_cast<double>(samples * length);
  return {static_cast<double>(right_tokens) / tokens,
          static_cast<double>(right_sequences) / static_cast<double>(samples), loss / tokens};
}

}  // namespace pmnet
