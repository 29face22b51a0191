#include "data/batcher.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "base/error.h"
#include "base/hash.h"
#include "data/carry_rows.h"
#include "data/permutation.h"

namespace pmnet {
namespace {

enum Purpose : uint64_t { kMixKey = 1, kCarryKey = 2, kFirstSourceKey = 16 };

uint64_t key_for(const BatchOptions& options, uint64_t purpose) {
  return splitmix64(splitmix64(options.seed, options.stage), purpose);
}

std::vector<double> weights_of(const DocumentSet& documents) {
  std::vector<double> weights;
  for (const DocumentSource& source : documents.sources) weights.push_back(source.weight);
  return weights;
}

void check(const DocumentSet& documents, const BatchOptions& options) {
  if (documents.sources.empty()) fail("the corpus is empty; name data with at least one document");
  if (options.single_epoch && options.mode == SampleMode::kCarry)
    throw std::logic_error("Batcher: rows that carry memory end at different steps, there is no single epoch");
  if (options.context < 1) fail("the context is {} bytes, expected at least 1", options.context);
  if (options.world < 1 || options.rank < 0 || options.rank >= options.world)
    fail("rank {} of {} is impossible; check RANK and WORLD_SIZE", options.rank, options.world);
  if (options.rows < 1 || options.rows % options.world != 0)
    fail("a batch of {} rows cannot be divided among {} processes; choose a multiple of {}", options.rows,
         options.world, options.world);
}

// One pass in order: the sources one after the other, each window once, whatever the weights.
SourceMix::Place locate_once(const std::vector<WindowOrder>& orders, uint64_t sample) {
  size_t source = 0;
  for (; sample >= orders[source].windows_per_epoch(); ++source) sample -= orders[source].windows_per_epoch();
  return {source, sample};
}

}  // namespace

uint64_t hash_batch(const Batch& batch) {
  uint64_t hash = splitmix64(batch.step);
  const auto add = [&](const auto& values) {
    hash = splitmix64(hash, hash64(values.data(), values.size() * sizeof(values[0])));
  };
  add(batch.ids);
  add(batch.lengths);
  add(batch.loss_mask);
  add(batch.continues);
  add(batch.sample_ids);
  return hash;
}

SourceMix::SourceMix(const std::vector<double>& weights, uint64_t key) : bounds_{0}, key_(key) {
  if (weights.size() > kBlock) fail("{} sources are too many, expected at most {}; merge some", weights.size(), kBlock);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (size_t k = 0; k < weights.size(); ++k) {
    sum += weights[k];
    // Every source gets a place, however small its weight, and leaves one for each source after it.
    const auto bound = static_cast<uint64_t>(std::llround(sum / total * kBlock));
    bounds_.push_back(std::clamp(bound, bounds_.back() + 1, kBlock - (weights.size() - 1 - k)));
  }
}

SourceMix::Place SourceMix::locate(uint64_t sample) const {
  if (bounds_.size() <= 2) return {0, sample};
  const uint64_t block = sample / kBlock;
  const uint64_t place = Permutation(kBlock, splitmix64(key_, block))(sample % kBlock);
  const size_t source = std::upper_bound(bounds_.begin(), bounds_.end(), place) - bounds_.begin() - 1;
  return {source, block * (bounds_[source + 1] - bounds_[source]) + place - bounds_[source]};
}

Batcher::Batcher(std::shared_ptr<const DocumentSet> documents, const BatchOptions& options)
    : documents_(std::move(documents)),
      options_((check(*documents_, options), options)),
      mix_(weights_of(*documents_), key_for(options, kMixKey)) {
  if (options_.mode == SampleMode::kCarry) {
    carry_ = std::make_unique<CarryRows>(*documents_, options_, mix_, key_for(options_, kCarryKey));
    samples_per_epoch_ = carry_->windows_per_epoch();
    return;
  }
  for (const DocumentSource& source : documents_->sources) {
    orders_.emplace_back(source, options_.framing, options_.context, options_.mode == SampleMode::kPacked,
                         options_.shuffle, key_for(options_, kFirstSourceKey + orders_.size()));
    samples_per_epoch_ += orders_.back().windows_per_epoch();
  }
}

Batcher::~Batcher() = default;
Batcher::Batcher(Batcher&&) noexcept = default;

int64_t Batcher::steps_per_epoch() const {
  const auto rows = static_cast<uint64_t>(options_.rows);
  return static_cast<int64_t>((samples_per_epoch_ + rows - 1) / rows);
}

Batch Batcher::make(int64_t step) {
  if (step < options_.first_step) throw std::logic_error("Batcher::make before the stage's first step");
  const auto step_in_stage = static_cast<uint64_t>(step - options_.first_step);
  const int64_t context = options_.context;
  Batch batch;
  batch.step = step;
  batch.context = context;
  batch.rows = options_.rows / options_.world;
  batch.ids.resize(batch.rows * (context + 1), options_.framing.pad);
  batch.loss_mask.resize(batch.rows * context);
  batch.lengths.resize(batch.rows);
  batch.continues.resize(batch.rows);
  batch.sample_ids.resize(batch.rows, -1);
  TokenReader tokens(options_.framing);
  std::vector<uint8_t> scored;
  for (int64_t r = 0; r < batch.rows; ++r) {
    const uint64_t global_row = static_cast<uint64_t>(options_.rank * batch.rows + r);
    const uint64_t sample = step_in_stage * options_.rows + global_row;
    if (options_.single_epoch && sample >= samples_per_epoch_) continue;
    const Row row{{batch.ids.data() + r * (context + 1), static_cast<size_t>(context + 1)},
                  {batch.loss_mask.data() + r * context, static_cast<size_t>(context)}};
    if (carry_) {
      const CarryRows::Place place = carry_->locate(step_in_stage, global_row);
      const DocumentSource& source = documents_->sources[place.source];
      batch.continues[r] = place.continues;
      batch.lengths[r] = fill_from_document(tokens, options_.framing, source, source.documents[place.document],
                                            place.window, context, scored, row);
    } else {
      const SourceMix::Place place = options_.single_epoch ? locate_once(orders_, sample) : mix_.locate(sample);
      batch.lengths[r] = orders_[place.source].fill(place.number, row);
    }
    batch.sample_ids[r] = options_.first_step * options_.rows + static_cast<int64_t>(sample);
  }
  batch.hash = hash_batch(batch);
  return batch;
}

BatchQueue::BatchQueue(Batcher batcher, int64_t start_step, size_t depth)
    : batcher_(std::move(batcher)),
      depth_(std::max<size_t>(depth, 1)),
      thread_([this, start_step] { run(start_step); }) {}

BatchQueue::~BatchQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BatchQueue::run(int64_t step) {
  try {
    for (;; ++step) {
      Batch batch = batcher_.make(step);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || ready_.size() < depth_; });
      if (stopping_) return;
      ready_.push_back(std::move(batch));
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

Batch BatchQueue::next() {
  for (;;)
    if (std::optional<Batch> batch = next_within(std::chrono::hours(1))) return std::move(*batch);
}

std::optional<Batch> BatchQueue::next_within(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, time, [&] { return failure_ || !ready_.empty(); })) return std::nullopt;
  if (ready_.empty()) std::rethrow_exception(failure_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  return batch;
}

}  // namespace pmnet
