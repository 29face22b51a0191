#include "train/trainer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "train/batch_tensors.h"
#include "train/sequence_loss.h"

namespace pmnet {

namespace {

std::vector<Tensor> tensors_of(const std::vector<std::pair<std::string, Tensor>>& parameters) {
  std::vector<Tensor> tensors;
  for (const auto& [name, parameter] : parameters) tensors.push_back(parameter);
  return tensors;
}

std::vector<std::pair<std::string, Tensor>> trainable_parameters(LanguageModel& model) {
  model.require_gradients(true);
  return model.named_parameters();
}

Schedule schedule_of(const TrainConfig& config) {
  return {.shape = config.schedule,
          .peak = config.learning_rate,
          .min_ratio = config.min_lr_ratio,
          .decay_fraction = config.decay_fraction,
          .warmup = config.warmup,
          .steps = config.total_steps()};
}

}  // namespace

MemorySwitches memory_switches(const TrainConfig& config) {
  MemorySwitches switches;
  if (!config.recurrence) switches.recurrence = false;
  switches.normalize_gradient = config.normalize_gradient;
  switches.unconstrained = config.unconstrained;
  switches.zero_embeddings = config.zero_embeddings;
  switches.straight_through = config.straight_through;
  return switches;
}

Trainer::Trainer(LanguageModel& model, const TrainConfig& config, ProcessGroup& group)
    : model_(model),
      config_(config),
      group_(group),
      parameters_(trainable_parameters(model)),
      optimizer_(parameters_, {.beta1 = config.beta1,
                               .beta2 = config.beta2,
                               .eps = config.eps,
                               .weight_decay = config.weight_decay,
                               .memory_embedding_lr = config.memory_embedding_lr,
                               .decay_everything = config.decay_everything}),
      schedule_(schedule_of(config)),
      reducer_(make_gradient_reducer(tensors_of(parameters_), group)),
      samples_(model) {}

StepReport Trainer::step(const Batch& batch, StopCheck& stop) {
  StepReport report;
  const Start start = agree_on_start(batch, stop);
  if (start.stop) return report;
  report.scored = start.scored;
  report.positions = start.positions;
  report.learning_rate = rate_factor_ * schedule_.learning_rate(progress_.step);

  // A rank that is asked to stop in the middle goes straight to the all-reduce, where the others wait for it and learn
  // of it.
  const Tensor totals = at::zeros({2}, at::kDouble);  // loss, ranks that stop
  std::vector<ModelState> carried;
  try {
    totals[0] = forward_backward(batch, start, stop, carried);
  } catch (const StopRequested&) {
    totals[1] = 1;
  }
  reducer_->finalize();
  group_.sum(totals);
  if (totals[1].item<double>() > 0) {
    optimizer_.zero_gradients();
    return report;
  }
  report.loss = totals[0].item<double>() / static_cast<double>(std::max<int64_t>(1, start.scored));
  report.gradient_norm = gradient_norm(parameters_);
  report.outcome = judge(report);

  if (report.outcome == StepOutcome::kUpdated) {
    if (config_.clip > 0) clip_gradients(parameters_, report.gradient_norm, config_.clip);
    optimizer_.step(report.learning_rate);
  }
  optimizer_.zero_gradients();
  // What a pass with infinities leaves behind must not poison the next.
  carried_ = report.outcome == StepOutcome::kNotFinite ? std::vector<ModelState>() : std::move(carried);
  progress_.step += 1;
  progress_.bytes += report.positions;
  return report;
}

Trainer::Start Trainer::agree_on_start(const Batch& batch, StopCheck& stop) {
  const Tensor sums = at::zeros({3}, at::kLong);
  sums[0] = scored_bytes(batch);
  sums[1] = batch.rows * batch.context;
  sums[2] = stop.requested() ? 1 : 0;
  group_.sum(sums);
  return {sums[0].item<int64_t>(), sums[1].item<int64_t>(), sums[2].item<int64_t>() > 0};
}

double Trainer::forward_backward(const Batch& batch, const Start& start, StopCheck& stop,
                                 std::vector<ModelState>& carried) {
  const int64_t rows = batch.rows / config_.accumulation;
  double loss = 0;
  for (int64_t first = 0; first < batch.rows; first += rows) {
    stop.throw_if_requested();
    BatchPart part = part_of(batch, first, rows, model_.head_weight().device());
    LossOptions options;
    options.forward.training = true;
    options.forward.memory = memory_switches(config_);
    options.forward.memory.route_balance =
        config_.route_balance / static_cast<double>(std::max<int64_t>(1, start.positions));
    options.forward.lengths = part.lengths;
    options.forward.dropout = {static_cast<uint64_t>(config_.seed), static_cast<uint64_t>(progress_.step),
                               std::move(part.samples)};
    options.chunk = config_.chunk;
    options.scale = 1.0 / static_cast<double>(std::max<int64_t>(1, start.scored));
    options.between = [&] { stop.throw_if_requested(); };
    if (first + rows == batch.rows) options.before_last_backward = [&] { reducer_->expect_last_backward(); };
    ModelState before, after;
    if (config_.carry) {
      before = initial_state(batch, first, rows);
      options.initial = &before;
      options.final_state = &after;
    }
    loss += samples_.loss_and_gradients(part.sequence, options).loss;
    for (int64_t r = 0; config_.carry && r < rows; ++r) carried.push_back(after.row(r));
  }
  return loss;
}

ModelState Trainer::initial_state(const Batch& batch, int64_t first_row, int64_t rows) const {
  std::vector<ModelState> states;
  for (int64_t r = first_row; r < first_row + rows; ++r)
    states.push_back(batch.continues[r] && !carried_.empty() ? carried_[r] : model_.initial_state(1));
  return ModelState::stack(states);
}

StepOutcome Trainer::judge(const StepReport& report) {
  if (!std::isfinite(report.loss) || !std::isfinite(report.gradient_norm)) {
    progress_.skipped += 1;
    progress_.not_finite_in_a_row += 1;
    return StepOutcome::kNotFinite;
  }
  progress_.not_finite_in_a_row = 0;
  if (report.scored == 0) return StepOutcome::kUpdated;  // says nothing about the usual loss
  const bool spike =
      progress_.spikes.is_spike(report.loss, report.gradient_norm, config_.spike_z, config_.spike_window);
  // Spikes count as the past too: a lasting rise is a new level, not a hundred spikes.
  if (config_.spike_z > 0) progress_.spikes.add(report.loss, report.gradient_norm, config_.spike_window);
  progress_.skipped += spike ? 1 : 0;
  return spike ? StepOutcome::kSpike : StepOutcome::kUpdated;
}

std::optional<ModelState> Trainer::gather_carried() {
  if (carried_.empty()) return std::nullopt;
  ModelState mine = ModelState::stack(carried_);
  std::vector<ModelState> ranks(group_.world(), mine);
  std::vector<std::vector<Tensor>> gathered;
  mine.visit([&](const std::string&, Tensor& tensor) { gathered.push_back(group_.gather(tensor)); });
  for (int r = 0; r < group_.world(); ++r) {
    size_t next = 0;
    ranks[r].visit([&](const std::string&, Tensor& tensor) { tensor = gathered[next++][r]; });
  }
  return ModelState::stack(ranks);
}

void Trainer::set_carried(const ModelState& rows_of_all_ranks) {
  const int64_t rows = rows_of_all_ranks.batch() / group_.world();
  carried_.clear();
  for (int64_t r = 0; r < rows; ++r) carried_.push_back(rows_of_all_ranks.row(group_.rank() * rows + r));
}

}  // namespace pmnet
