#include "experiments/framework/task_training.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/statistics.h"
#include "config/costs.h"
#include "model/model_folder.h"
#include "train/loop.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::unique_ptr<LanguageModel> new_model(const TaskTraining& training) {
  if (!training.begin_from.empty()) {
    LoadedModel loaded = load_model(training.begin_from);
    if (loaded.config != training.model)
      fail("{}: the model there has another shape than this training; use the recipe that it was trained with",
           training.begin_from.string());
    return std::move(loaded.model);
  }
  std::unique_ptr<LanguageModel> model = make_model(training.model);
  model->initialize(static_cast<uint64_t>(training.config.seed));
  return model;
}

// One training of a task on the shared loop: makes its batches, judges it, and remembers where its curriculum stands.
class TaskRun : public BatchProvider, public Evaluator, public LoopHooks {
 public:
  TaskRun(const TaskTraining& training, PartContext& context)
      : training_(training), config_(training.config), context_(context), checkpoints_(context.folder() / "ckpt") {
    config_.checkpoint_every = 0;
    config_.keep = 1;
    config_.keep_best = false;  // evaluate() keeps the best weights in <folder>/model
  }

  TaskOutcome train() {
    open();
    const LoopEnd end = loop_->run(*this, *this);
    if (end == LoopEnd::kStopped) {
      loop_->save();
      loop_->require_saved();
      throw StopRequested{};
    }
    outcome_.diverged = end == LoopEnd::kNotFinite;
    finish();
    return outcome_;
  }

 private:
  const TrainerProgress& progress() const { return loop_->progress(); }

  void open() {
    clean_checkpoints(checkpoints_);
    const auto newest =
        newest_checkpoint(checkpoints_, [&](const std::string& text) { context_.print("warning: " + text); });
    if (newest) set_aside_newer(checkpoints_, newest->step);
    model_ = newest ? load_model(newest->folder).model : new_model(training_);
    outcome_.best_score = -std::numeric_limits<double>::infinity();
    loop_.emplace(TrainingLoop::Setup{.model = *model_,
                                      .model_config = training_.model,
                                      .config = config_,
                                      .checkpoints = checkpoints_,
                                      .group = context_.group(),
                                      .stop = context_.stop(),
                                      .hooks = *this});
    if (newest) loop_->resume(*newest);
    log_ = std::make_unique<MetricsLog>((context_.folder() / "metrics.jsonl").string(), newest ? progress().step : -1);
    started_ = steady_seconds();
  }

  std::optional<Batch> next(int64_t step, StopCheck&) override {
    if (training_.rate) loop_->scale_learning_rate(training_.rate(outcome_.stage, step - stage_began_));
    return training_.batch(step, outcome_.stage);
  }

  void on_step(const Batch& batch, const StepReport& report, double) override {
    batch_hash_ = splitmix64(batch_hash_, batch.hash);
    log_->write(
        progress().step,
        {{"train/loss", report.loss}, {"train/grad_norm", report.gradient_norm}, {"train/lr", report.learning_rate}});
    const double share = static_cast<double>(progress().step) / static_cast<double>(config_.total_steps());
    context_.progress(share, fmt::format("step {}/{}, loss {:.3f}, score {:.3f}", progress().step,
                                         config_.total_steps(), report.loss, score_));
  }

  void on_warning(const std::string& sentence) override { context_.print("warning: " + sentence); }

  std::optional<ValidationResult> evaluate(const LanguageModel& model, int64_t step, StopCheck&) override {
    TaskTraining::Evaluation found;
    try {
      found = training_.evaluate(model, outcome_.stage);
    } catch (const StopRequested&) {
      return std::nullopt;
    }
    Metrics metrics = found.metrics;
    metrics.emplace_back("eval/score", found.score);
    metrics.emplace_back("eval/stage", static_cast<double>(outcome_.stage));
    log_->write(step, metrics);
    score_ = found.score;
    if (found.score > outcome_.best_score) improved_step_ = step;
    if (is_better(found)) {
      outcome_.best_score = found.score;
      outcome_.best_step = step;
      best_stage_ = outcome_.stage;
      best_loss_ = found.loss;
      save_model(context_.folder() / "model", *model_, training_.model);
    }
    if (found.next_stage) {
      outcome_.stage += 1;
      stage_began_ = step;
    }
    const bool hopeless = training_.patience > 0 && step - improved_step_ >= training_.patience;
    return ValidationResult{.bits_per_byte = std::nullopt, .finished = found.finished || hopeless};
  }

  // Perfect scores are many: a later stage asks for more, and within one the lower loss has the wider margin.
  bool is_better(const TaskTraining::Evaluation& found) const {
    if (found.score != outcome_.best_score) return found.score > outcome_.best_score;
    if (outcome_.stage != best_stage_) return outcome_.stage > best_stage_;
    return found.loss < best_loss_;
  }

  double seconds() const { return seconds_before_ + steady_seconds() - started_; }

  json extra_state() const override {
    return {{"stage", outcome_.stage},
            {"stage_began", stage_began_},
            {"best_score", std::isfinite(outcome_.best_score) ? json(outcome_.best_score) : json()},
            {"best_step", outcome_.best_step},
            {"best_stage", best_stage_},
            {"best_loss", best_loss_},
            {"improved_step", improved_step_},
            {"score", score_},
            {"batch_hash", batch_hash_},
            {"seconds", seconds()}};
  }

  void restore(const json& state) override {
    outcome_.stage = state.at("stage");
    stage_began_ = state.at("stage_began");
    if (!state.at("best_score").is_null()) outcome_.best_score = state.at("best_score");
    outcome_.best_step = state.at("best_step");
    best_stage_ = state.at("best_stage");
    best_loss_ = state.at("best_loss");
    improved_step_ = state.at("improved_step");
    score_ = state.at("score");
    batch_hash_ = state.at("batch_hash");
    seconds_before_ = state.at("seconds");
  }

  void finish() {
    outcome_.steps = progress().step;
    outcome_.skipped = progress().skipped;
    outcome_.batch_hash = fmt::format("{:016x}", batch_hash_);
    outcome_.seconds = seconds();
    if (outcome_.best_step == 0) save_model(context_.folder() / "model", *model_, training_.model);
    summarize_curves();
    fs::remove_all(checkpoints_);
  }

  void summarize_curves() {
    MetricSeries series = read_metrics((context_.folder() / "metrics.jsonl").string());
    std::vector<double> norms;
    for (const MetricPoint& point : series.by_name["train/grad_norm"])
      if (std::isfinite(point.value)) norms.push_back(point.value);
    if (!norms.empty()) {
      outcome_.median_norm = median(norms);
      outcome_.largest_norm = *std::max_element(norms.begin(), norms.end());
    }
    double count = 0;
    for (const MetricPoint& point : series.by_name["train/loss"]) {
      if (point.step <= outcome_.steps - std::max<int64_t>(1, outcome_.steps / 10)) continue;
      outcome_.last_loss += point.value;
      count += 1;
    }
    outcome_.last_loss /= std::max(1.0, count);
  }

  const TaskTraining& training_;
  TrainConfig config_;
  PartContext& context_;
  fs::path checkpoints_;
  std::unique_ptr<LanguageModel> model_;
  std::optional<TrainingLoop> loop_;
  std::unique_ptr<MetricsLog> log_;
  TaskOutcome outcome_;
  uint64_t batch_hash_ = 0;
  int64_t stage_began_ = 0;    // the step
  int64_t improved_step_ = 0;  // when the score last rose, where the best weights may be later ones of a lower loss
  int64_t best_stage_ = 0;     // in which the best weights were found
  double best_loss_ = 0;       // theirs
  double score_ = 0;
  double started_ = 0, seconds_before_ = 0;
};

// A smaller batch of the same kind, every byte of which counts: to time a step with.
Batch shrink_batch(const Batch& batch, int64_t rows, int64_t context) {
  Batch cut;
  cut.rows = rows;
  cut.context = context;
  for (int64_t row = 0; row < rows; ++row) {
    const auto first = batch.ids.begin() + row * (batch.context + 1);
    cut.ids.insert(cut.ids.end(), first, first + context + 1);
    cut.lengths.push_back(std::min(batch.lengths[row], context));
    cut.continues.push_back(0);
    cut.sample_ids.push_back(batch.sample_ids[row]);
  }
  cut.loss_mask.assign(rows * context, 1);
  return cut;
}

}  // namespace

json to_json(const TaskOutcome& outcome) {
  return {{"steps", outcome.steps},
          {"best_step", outcome.best_step},
          {"best_score", outcome.best_score},
          {"stage", outcome.stage},
          {"skipped", outcome.skipped},
          {"diverged", outcome.diverged},
          {"batch_hash", outcome.batch_hash},
          {"largest_norm", outcome.largest_norm},
          {"median_norm", outcome.median_norm},
          {"last_loss", outcome.last_loss},
          {"seconds", outcome.seconds}};
}

TaskOutcome train_on_task(const TaskTraining& training, PartContext& context) {
  return TaskRun(training, context).train();
}

PartCost training_cost(const TaskTraining& training) {
  const Batch batch = training.batch(0, 0);
  PartCost cost;
  cost.parameters = parameter_count(training.model);
  cost.bytes = static_cast<double>(training.config.total_steps() * batch.rows * batch.context);
  cost.flop = cost.bytes * training_flop_per_byte(training.model, batch.context);
  return cost;
}

double time_task_step(const TaskTraining& training) {
  constexpr double kEnoughFlop = 2e11;  // seconds on a few cores; larger steps are timed in part
  constexpr int64_t kLeastContext = 256;
  const Batch whole = training.batch(0, 0);
  const auto flop_of_row = [&](int64_t context) {
    return training_flop_per_byte(training.model, context) * static_cast<double>(context);
  };
  const auto affordable = [&](double flop_each) { return static_cast<int64_t>(kEnoughFlop / flop_each); };
  const int64_t context = std::clamp(affordable(training_flop_per_byte(training.model, whole.context)),
                                     std::min(kLeastContext, whole.context), whole.context);
  const int64_t rows = std::clamp<int64_t>(affordable(flop_of_row(context)), 1, whole.rows);
  const Batch batch = shrink_batch(whole, rows, context);
  const std::unique_ptr<LanguageModel> model = new_model(training);
  ProcessGroup group;
  StopCheck stop(group);
  TrainConfig config = training.config;
  config.accumulation = 1;  // the few rows go through together
  Trainer trainer(*model, config, group);
  double seconds = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {  // the first also pays for warming up
    const double start = steady_seconds();
    if (trainer.step(batch, stop).outcome == StepOutcome::kStopped) throw StopRequested{};
    seconds = steady_seconds() - start;
  }
  return seconds * flop_of_row(whole.context) * static_cast<double>(whole.rows) /
         (flop_of_row(context) * static_cast<double>(rows));
}

}  // namespace pmnet
