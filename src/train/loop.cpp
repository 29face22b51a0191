#include "train/loop.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"

namespace pmnet {

namespace fs = std::filesystem;

TrainingLoop::TrainingLoop(const Setup& setup)
    : model_(setup.model),
      model_config_(setup.model_config),
      config_(setup.config),
      checkpoints_(setup.checkpoints),
      group_(setup.group),
      stop_(setup.stop),
      hooks_(setup.hooks),
      trainer_(setup.model, setup.config, setup.group),
      saved_at_(steady_seconds()) {}

void TrainingLoop::resume(const RunCheckpoint& checkpoint) {
  trainer_.progress() = checkpoint.progress;
  load_optimizer(checkpoint.folder, trainer_.optimizer());
  if (const auto carried = load_carried(checkpoint.folder, model_)) trainer_.set_carried(*carried);
  record_ = checkpoint.record;
  saved_step_ = checkpoint.step;
  last_checkpoint_ = checkpoint.folder;
  hooks_.restore(record_.extra);
}

LoopEnd TrainingLoop::run(BatchProvider& batches, Evaluator& evaluator) {
  saved_at_ = steady_seconds();
  if (record_.evaluation_pending) {
    evaluate(evaluator);
    if (!record_.evaluation_pending) saved_step_ = -1;  // the checkpoint of this step shall hold the result
  }
  while (!good_enough_ && progress().step < config_.total_steps()) {
    if (!step(batches)) return LoopEnd::kStopped;
    if (progress().not_finite_in_a_row >= config_.max_not_finite) return LoopEnd::kNotFinite;
    if (due(config_.eval_every) || progress().step == config_.total_steps()) evaluate(evaluator);
    if (save_is_due()) save();
  }
  return record_.evaluation_pending ? LoopEnd::kStopped : LoopEnd::kFinished;
}

bool TrainingLoop::step(BatchProvider& batches) {
  const double asked = steady_seconds();
  const std::optional<Batch> batch = batches.next(progress().step, stop_);
  const double waited = steady_seconds() - asked;
  const StepReport report = trainer_.step(batch.value_or(Batch{}), stop_);
  if (report.outcome == StepOutcome::kStopped) return false;
  hooks_.on_step(*batch, report, waited);
  return true;
}

// A stop during an evaluation leaves it pending: the run makes up for it when it resumes.
void TrainingLoop::evaluate(Evaluator& evaluator) {
  const std::optional<ValidationResult> found = evaluator.evaluate(model_, progress().step, stop_);
  record_.evaluation_pending = !found.has_value();
  if (!found) return;
  if (found->bits_per_byte) record_.validation_bpb = found->bits_per_byte;
  good_enough_ = found->finished;
}

// Something due so shortly before the end that the last step would repeat it waits for the last step.
bool TrainingLoop::due(int64_t interval) const {
  constexpr int64_t kNearTheEnd = 20;  // a twentieth of the interval
  const int64_t left = config_.total_steps() - progress().step;
  return interval > 0 && progress().step % interval == 0 && (left == 0 || left >= interval / kNearTheEnd);
}

bool TrainingLoop::save_is_due() {
  const bool by_steps = config_.checkpoint_every > 0 && progress().step % config_.checkpoint_every == 0;
  const double interval = 60 * config_.checkpoint_minutes;
  // The clock of rank 0 decides for all.
  const bool by_time = interval > 0 && group_.any(group_.is_rank0() && steady_seconds() - saved_at_ > interval);
  return by_steps || by_time;
}

void TrainingLoop::save() {
  if (saved_step_ == progress().step || progress().step == 0) return;
  const std::optional<ModelState> carried = trainer_.gather_carried();
  if (group_.world() > 1) group_.require_equal("weights", model_hash(model_));
  group_.run_on_rank0([&] {
    const auto not_saved = [&](const std::exception& error) {
      hooks_.on_warning(
          fmt::format("the checkpoint of step {} failed, training continues: {}", progress().step, error.what()));
    };
    try {
      write_checkpoint(carried);
    } catch (const UserError& error) {
      not_saved(error);
    } catch (const fs::filesystem_error& error) {  // a folder that cannot be read, a network share that is gone
      not_saved(error);
    }
    saved_at_ = steady_seconds();
  });
  saved_step_ = std::stoll(group_.all_gather_text(std::to_string(saved_step_)).front());
}

void TrainingLoop::write_checkpoint(const std::optional<ModelState>& carried) {
  RunRecord record = record_;
  record.extra = hooks_.extra_state();
  if (record.validation_bpb && (!record.best_bpb || *record.validation_bpb < *record.best_bpb)) {
    record.best_bpb = record.validation_bpb;
    record.best_step = progress().step;
  }
  const fs::path folder = checkpoint_folder(checkpoints_, progress().step);
  save_run_checkpoint(folder, model_, model_config_, trainer_.optimizer(), carried, progress(), record);
  record_ = record;
  saved_step_ = progress().step;
  last_checkpoint_ = folder;
  prune_checkpoints(checkpoints_, config_.keep, {saved_step_, config_.keep_best ? record_.best_step : -1});
}

void TrainingLoop::require_saved() const {
  if (progress().step > 0 && saved_step_ != progress().step)
    fail("the state of step {} could not be saved; the last complete checkpoint is {}", progress().step,
         last_checkpoint_.empty() ? "none" : last_checkpoint_.string());
}

}  // namespace pmnet
