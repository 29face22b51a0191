#include <numbers>

#include "api/internal.h"

namespace pmnet::inline v0 {

struct Trainer::Impl {
  Model model;
  std::shared_ptr<LanguageModel> network;
  ProcessGroup group;
  StopCheck stop;
  internal::BatchTrainer trainer;

  Impl(const Model& public_model, std::shared_ptr<LanguageModel> weights, const TrainConfig& config)
      : model(public_model), network(std::move(weights)), stop(group), trainer(*network, config, group) {}
};

namespace {

TrainConfig config_of(const TrainerOptions& options) {
  TrainConfig config;
  config.learning_rate = options.learning_rate;
  config.min_lr_ratio = options.min_lr_ratio;
  config.warmup = options.warmup_steps;
  config.steps = options.total_steps;
  config.beta1 = options.beta1;
  config.beta2 = options.beta2;
  config.weight_decay = options.weight_decay;
  config.clip = options.clip_norm;
  config.chunk = options.chunk;
  config.seed = static_cast<int64_t>(options.seed);
  return config;
}

void check(const TrainerOptions& options) {
  if (!(options.learning_rate > 0)) fail("learning_rate is {}; expected a positive number", options.learning_rate);
  if (!(options.clip_norm >= 0)) fail("clip_norm is {}; expected 0 or a positive number", options.clip_norm);
  if (options.total_steps < 1) fail("total_steps is {}; expected at least 1", options.total_steps);
  if (options.warmup_steps < 0) fail("warmup_steps is {}; expected 0 or more", options.warmup_steps);
  if (options.chunk < 0) fail("chunk is {}; expected 0 or more", options.chunk);
}

// Rows of BOS, the bytes and EOS, padded to the longest.
Batch batch_of(const std::vector<Example>& examples, const Model& model, int64_t step) {
  if (examples.empty()) fail("a training step needs at least one example");
  Batch batch;
  batch.step = step;
  batch.rows = static_cast<int64_t>(examples.size());
  for (const Example& example : examples)
    batch.context = std::max(batch.context, static_cast<int64_t>(example.bytes.size()) + 1);
  for (int64_t row = 0; row < batch.rows; ++row) {
    const Example& example = examples[row];
    const auto bytes = static_cast<int64_t>(example.bytes.size());
    if (example.prompt_bytes < 0 || example.prompt_bytes > bytes)
      fail("example {} has {} bytes and prompt_bytes {}; expected 0 to {}", row, bytes, example.prompt_bytes, bytes);
    batch.ids.push_back(model.bos_id());
    for (const char byte : example.bytes) batch.ids.push_back(static_cast<unsigned char>(byte));
    batch.ids.push_back(model.eos_id());
    batch.ids.resize((row + 1) * (batch.context + 1), 0);
    for (int64_t t = 0; t < batch.context; ++t)
      batch.loss_mask.push_back(t >= example.prompt_bytes && t <= bytes ? 1 : 0);
    batch.lengths.push_back(bytes + 1);
    batch.continues.push_back(0);
    batch.sample_ids.push_back(step * batch.rows + row);
  }
  return batch;
}

}  // namespace

Trainer::Trainer(const Model& model, const TrainerOptions& options) {
  check(options);
  if (!model.impl_->model) fail("a quantized model cannot be trained; load the float32 model it was made from");
  impl_ = std::make_unique<Impl>(model, model.impl_->model, config_of(options));
}

Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

StepResult Trainer::step(const std::vector<Example>& batch) {
  const StepReport report = impl_->trainer.step(batch_of(batch, impl_->model, steps()), impl_->stop);
  return {.updated = report.outcome == StepOutcome::kUpdated,
          .bits_per_byte = report.loss / std::numbers::ln2,
          .scored_bytes = report.scored,
          .gradient_norm = report.gradient_norm,
          .learning_rate = report.learning_rate};
}

std::int64_t Trainer::steps() const { return impl_->trainer.progress().step; }

}  // namespace pmnet::inline v0
