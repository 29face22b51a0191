// The settings of a training run. train_options.h gives each field a key for run files and a flag.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/data_options.h"
#include "config/model_config.h"

namespace pmnet {

inline constexpr int64_t kMaxContext = int64_t{1} << 28;  // bytes per sample

// From `first_step` on, samples are `context` bytes long.
struct ContextStage {
  int64_t first_step = 0;
  int64_t context = 0;
};

enum class Device { kCpu, kCuda };
template <>
inline constexpr auto kEnumNames<Device> = std::to_array<const char*>({"cpu", "cuda"});

enum class ScheduleShape {
  kCosine,            // half a cosine from the peak down to min_ratio * peak
  kConstant,          // the peak until the end
  kWarmupStableDecay  // the peak, then a straight line down to min_ratio * peak over the last decay_fraction of the run
};
template <>
inline constexpr auto kEnumNames<ScheduleShape> = std::to_array<const char*>({"cosine", "constant", "wsd"});

struct TrainConfig {
  // model: one of the first three
  std::string preset;
  std::string model_config;                   // config.json or a folder with one; random weights
  std::string init;                           // model folder whose weights are the start; fresh optimizer
  std::optional<Architecture> architecture;   // absent: that of the model
  double dropout = -1;                        // on attention probabilities; negative: as in the model's configuration
  double initializer_range = -1;              // of the normal distribution of new weights; negative: likewise
  double memory_embedding_std = -1;           // of the normal distribution of new memory embeddings; negative: likewise
  double residual_init = -1;                  // factor of it where a residual branch ends; negative: likewise
  std::optional<MemoryKeys> memory_keys;      // absent: those of the model
  std::optional<MemoryValues> memory_values;  // likewise
  bool memory_tree = true;                    // false: a chain, as in the model's configuration
  int64_t max_ngram = 0;                      // bytes of the longest n-grams with embeddings; 0: as in the model
  int64_t ngram_rows = 0;                     // likewise
  bool binary = false;                        // BOS and EOS at the free ids 256 and 257

  // data
  std::vector<std::string> inputs;      // files, folders, globs
  std::vector<double> weights;          // one per input, each then a separate source; empty: one source
  std::vector<std::string> validation;  // a separate held-out corpus
  HoldOut hold_out{.by = HoldOut::By::kAuto, .fraction = 0.01, .patterns = {}};
  SampleMode samples = SampleMode::kPacked;  // kPacked or kPerDocument
  ReadOptions read;
  std::string cache;  // folder of packed shards; empty: the user's cache

  // train
  int64_t batch = 8;                          // samples per step, all ranks together
  int64_t accumulation = 1;                   // parts that each rank cuts its samples into
  int64_t context = 2048;                     // bytes per sample
  std::vector<std::string> context_schedule;  // "STEP:CONTEXT"
  int64_t chunk = 0;                          // bytes per exact pass; 0: whole samples
  int64_t steps = 0;                          // 0: from `bytes`, else kDefaultSteps
  int64_t bytes = 0;                          //
  int64_t seed = 0;
  bool carry = false;   // memory is carried from sample to sample of one document
  int64_t threads = 0;  // 0: all cores, divided among the ranks of a machine
  Device device = Device::kCpu;
  int64_t timeout_seconds = 60;  // how long ranks wait for each other

  // optimizer
  double learning_rate = 1e-3;
  ScheduleShape schedule = ScheduleShape::kCosine;  // of the learning rate after the warm-up
  double min_lr_ratio = 0.1;                        // cosine and wsd end at this share of the learning rate
  double decay_fraction = 0.2;                      // wsd: the share of the steps over which the learning rate falls
  int64_t warmup = 100;                             // steps
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;
  double memory_embedding_lr = 1;  // of the memory embeddings, as a multiple of the learning rate
  bool decay_everything = false;   // also norms, biases and embeddings
  double clip = 1.0;               // gradient norm; 0: never

  // memory: the switches of the experiments
  bool memory_modules = true;
  bool recurrence = true;
  bool normalize_gradient = true;
  bool unconstrained = false;
  bool straight_through = false;
  double route_balance = 0;  // per position of the batch, as the loss is per scored byte
  ZeroEmbeddings zero_embeddings = ZeroEmbeddings::kNone;

  // guard
  int64_t max_not_finite = 10;  // in a row
  double spike_z = 0;           // standard deviations above the recent past; 0: off
  int64_t spike_window = 128;   // steps

  // eval, sample, checkpoint, log
  int64_t eval_every = 250;
  int64_t eval_bytes = 262'144;
  int64_t sample_every = 500;
  int64_t sample_bytes = 200;
  std::string sample_prompt;
  double sample_temperature = 0.8;
  int64_t checkpoint_every = 500;
  double checkpoint_minutes = 15;
  int64_t keep = 2;
  bool keep_best = true;
  int64_t log_every = 10;
  bool log_limit = true;  // measure what matrix products reach on this machine

  static constexpr int64_t kDefaultSteps = 2000;

  // The context and its changes, in order; throws UserError for a schedule that makes no sense.
  std::vector<ContextStage> stages() const;
  int64_t longest_context() const;
  int64_t total_steps() const;
  // Bytes that the first `step` steps put through the model, all ranks together, whether they count in the loss or not.
  int64_t positions_before(int64_t step) const;
  // Samples of one forward pass on one of `world` ranks.
  int64_t rows_per_pass(int64_t world) const { return batch / world / accumulation; }

  // One sentence per problem, naming the key; empty when usable.
  std::vector<std::string> problems(int64_t world = 1) const;
  bool operator==(const TrainConfig&) const = default;
};

}  // namespace pmnet
