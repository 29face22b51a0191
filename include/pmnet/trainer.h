/// \file
/// Training on batches of your own.
#pragma once
#include <pmnet/model.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace pmnet {
inline namespace v0 {

/// Settings of AdamW, of its learning-rate schedule and of a training step.
struct TrainerOptions {
  double learning_rate = 1e-3;     ///< Peak learning rate, reached after the warm-up.
  double min_lr_ratio = 0.1;       ///< The cosine schedule ends at this fraction of the peak.
  std::int64_t warmup_steps = 10;  ///< Steps of linear warm-up.
  std::int64_t total_steps = 100;  ///< Length of the schedule. Later steps keep the final learning rate.
  double beta1 = 0.9;              ///< AdamW first-moment decay.
  double beta2 = 0.95;             ///< AdamW second-moment decay.
  double weight_decay = 0.1;       ///< Decay of weight matrices; norms, biases and embeddings are not decayed.
  double clip_norm = 1.0;          ///< Gradients are scaled down to this norm; 0 never clips.
  std::int64_t chunk = 0;          ///< Bytes per pass with exact gradients, for long examples; 0 takes them whole.
  std::uint64_t seed = 0;          ///< Seed of the attention dropout.
};

/// One training text.
struct Example {
  std::string bytes;              ///< The text. BOS and EOS are added around it.
  std::int64_t prompt_bytes = 0;  ///< This many first bytes are read but not scored.
};

/// What a training step did.
struct StepResult {
  bool updated = false;           ///< False if loss or gradient was not finite: the weights are then unchanged.
  double bits_per_byte = 0;       ///< Mean loss over the scored bytes, before the update.
  std::int64_t scored_bytes = 0;  ///< Bytes that counted, each EOS included.
  double gradient_norm = 0;       ///< Global norm before clipping.
  double learning_rate = 0;       ///< Learning rate of this step.
};

/// Trains a model step by step on examples that the program supplies.
///
/// For training on files, with checkpoints, validation and several machines, use `pmnet train`.
class Trainer {
 public:
  /// Trains the weights of `model` in place, those that its copies share.
  /// \throws UserError for quantized models and for options out of range.
  explicit Trainer(const Model& model, const TrainerOptions& options = {});
  /// Trainers move and are not copied.
  Trainer(Trainer&&) noexcept;
  /// Trainers move and are not copied.
  Trainer& operator=(Trainer&&) noexcept;
  ~Trainer();

  /// One optimizer step on a batch. Examples may differ in length; padding neither writes to the memory nor counts.
  /// \throws UserError if the batch is empty or a prompt is longer than its text.
  StepResult step(const std::vector<Example>& batch);

  /// Number of completed steps.
  std::int64_t steps() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace pmnet
