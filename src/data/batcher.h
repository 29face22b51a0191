// Documents -> batches of TOKENS. Sample i is a pure function of (documents, seed, i) and batch s is samples
// [s*rows, (s+1)*rows), so the cursor of a run is its step number, and ranks of any number see the same global batches.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/corpus.h"
#include "data/windows.h"

namespace pmnet {

struct BatchOptions {
  SampleMode mode = SampleMode::kPacked;
  int64_t rows = 8;  // of the whole batch, all ranks together
  int64_t context = 2048;
  uint64_t seed = 0;
  Framing framing;
  bool shuffle = true;
  bool single_epoch = false;  // rows past the first epoch are empty (length 0, sample id -1): for evaluation
  // Carry: documents of more windows are walked in several parts, so that one long book does not fill every row with
  // itself; 0 chooses an even share of the corpus per row.
  int64_t carry_windows = 0;
  int rank = 0;  // takes rows [rank*rows/world, (rank+1)*rows/world) of each batch
  int world = 1;
  int64_t first_step = 0;  // the step of the first sample: where this stage of a context schedule begins
  uint64_t stage = 0;      // number of that stage; each has its own shuffle
};

struct Batch {
  int64_t step = 0;
  int64_t rows = 0, context = 0;
  std::vector<int64_t> ids;         // rows x (context + 1): inputs are the first `context`, targets the last
  std::vector<int64_t> lengths;     // valid input positions of each row
  std::vector<uint8_t> loss_mask;   // rows x context: 1 where the target counts
  std::vector<uint8_t> continues;   // 1 where the row continues the same row of the previous step
  std::vector<int64_t> sample_ids;  // number of each sample in the run, the same whatever the number of ranks
  uint64_t hash = 0;                // of all of the above, to compare runs and ranks
};
uint64_t hash_batch(const Batch& batch);

// Which source a sample comes from, by weight, and its number there: in each block of samples every source has a fixed
// number of places, shuffled by (key, block).
class SourceMix {
 public:
  SourceMix(const std::vector<double>& weights, uint64_t key);
  struct Place {
    size_t source;
    uint64_t number;
  };
  Place locate(uint64_t sample) const;

 private:
  static constexpr uint64_t kBlock = 4096;
  std::vector<uint64_t> bounds_;  // place p of a block belongs to the source k with bounds_[k] <= p < bounds_[k+1]
  uint64_t key_;
};

class CarryRows;

class Batcher {
 public:
  Batcher(std::shared_ptr<const DocumentSet> documents, const BatchOptions& options);
  ~Batcher();
  Batcher(Batcher&&) noexcept;

  // This rank's rows of the batch. Any order of steps is right, ascending order is fast.
  Batch make(int64_t step);
  // Samples (in Carry mode: windows) in one pass over all sources.
  uint64_t samples_per_epoch() const { return samples_per_epoch_; }
  // Steps that cover one pass; the last may be partly filled from the next (empty rows with single_epoch).
  int64_t steps_per_epoch() const;
  const BatchOptions& options() const { return options_; }

 private:
  std::shared_ptr<const DocumentSet> documents_;
  BatchOptions options_;
  SourceMix mix_;
  std::vector<WindowOrder> orders_;
  std::unique_ptr<CarryRows> carry_;
  uint64_t samples_per_epoch_ = 0;
};

// Makes batches ahead of time in a separate thread; at most `depth` wait at once.
class BatchQueue {
 public:
  BatchQueue(Batcher batcher, int64_t start_step, size_t depth = 4);
  ~BatchQueue();
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  // The batch of start_step, then of the step after it, and so on; rethrows what went wrong while reading.
  Batch next();
  // The same, but empty when none is ready in time, for callers with something else to look at.
  std::optional<Batch> next_within(std::chrono::milliseconds time);

 private:
  void run(int64_t step);

  Batcher batcher_;
  size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pmnet
