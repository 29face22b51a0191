#include "train/loop.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "support/small_model.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

// A shape that a model folder may hold.
PmnetConfig loop_config() {
  PmnetConfig config = small_config();
  config.vocab_size = 260;
  config.bos_token_id = 254;
  config.eos_token_id = 255;
  return config;
}

// A run on random bytes that records what the loop asks of it.
struct SmallRun : BatchProvider, Evaluator, LoopHooks {
  fs::path checkpoints;
  TrainConfig config;
  ModelConfig model_config = loop_config();
  std::shared_ptr<PMNet> model = small_model(loop_config());
  ProcessGroup group;
  StopCheck stop{group};
  std::optional<TrainingLoop> loop;

  std::vector<int64_t> batches, evaluated;
  std::vector<std::string> warnings;
  int64_t stage = 0;
  int64_t interrupted_evaluation = -1, good_enough_at = -1;  // steps
  std::function<void(int64_t step)> before_batch = [](int64_t) {};

  explicit SmallRun(const fs::path& folder, int64_t steps) : checkpoints(folder / "ckpt") {
    at::set_num_threads(1);
    config.steps = steps;
    config.batch = 2;
    config.context = 5;
    config.warmup = 0;
    config.schedule = ScheduleShape::kConstant;  // so that runs of different lengths agree
    config.eval_every = 4;
    config.checkpoint_every = 0;
    config.checkpoint_minutes = 0;
  }

  LoopEnd run() {
    const auto newest = newest_checkpoint(checkpoints, [&](const std::string& text) { warnings.push_back(text); });
    if (newest) model = std::dynamic_pointer_cast<PMNet>(std::shared_ptr(load_model(newest->folder).model));
    loop.emplace(TrainingLoop::Setup{*model, model_config, config, checkpoints, group, stop, *this});
    if (newest) loop->resume(*newest);
    const LoopEnd end = loop->run(*this, *this);
    loop->save();
    return end;
  }

  std::optional<Batch> next(int64_t step, StopCheck&) override {
    before_batch(step);
    batches.push_back(step);
    Batch batch;
    batch.rows = config.batch;
    batch.context = config.context;
    const Tensor ids = random_ids(loop_config(), batch.rows, batch.context + 1, /*seed=*/step + 1);
    batch.ids.assign(ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel());
    batch.lengths.assign(batch.rows, batch.context);
    batch.loss_mask.assign(batch.rows * batch.context, 0);
    batch.loss_mask.front() = 1;  // the rest is a prompt
    batch.continues.assign(batch.rows, 0);
    batch.sample_ids.assign(batch.rows, step);
    return batch;
  }
  std::optional<ValidationResult> evaluate(const LanguageModel&, int64_t step, StopCheck&) override {
    if (step == interrupted_evaluation) return std::nullopt;
    evaluated.push_back(step);
    stage += 1;
    return ValidationResult{.bits_per_byte = 9.0 - static_cast<double>(step), .finished = step == good_enough_at};
  }
  void on_warning(const std::string& sentence) override { warnings.push_back(sentence); }
  nlohmann::json extra_state() const override { return {{"stage", stage}}; }
  void restore(const nlohmann::json& state) override { stage = state.at("stage"); }
};

TEST(TrainingLoop, AsksForEveryBatchOnceAndEvaluatesAtIntervalsAndAtTheEnd) {
  const TemporaryFolder folder;
  SmallRun run(folder.path(), 10);
  EXPECT_EQ(run.run(), LoopEnd::kFinished);
  EXPECT_EQ(run.batches, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(run.evaluated, (std::vector<int64_t>{4, 8, 10}));
  EXPECT_EQ(run.loop->progress().bytes, 10 * 2 * 5) << "prompts go through the model too";
  EXPECT_EQ(run.loop->record().best_step, 10);
}

TEST(TrainingLoop, TheLearningRateCanBeScaledStepByStep) {
  class Staged : public SmallRun {
   public:
    using SmallRun::SmallRun;
    std::optional<Batch> next(int64_t step, StopCheck& stop) override {
      loop->scale_learning_rate(step < 2 ? 1 : 0.25);
      return SmallRun::next(step, stop);
    }
    void on_step(const Batch&, const StepReport& report, double) override { rates.push_back(report.learning_rate); }
    std::vector<double> rates;
  };
  const TemporaryFolder folder;
  Staged run(folder.path(), 4);
  EXPECT_EQ(run.run(), LoopEnd::kFinished);
  const double rate = run.config.learning_rate;
  EXPECT_EQ(run.rates, (std::vector<double>{rate, rate, 0.25 * rate, 0.25 * rate}));
}

TEST(TrainingLoop, AnEvaluationJustBeforeTheLastOneIsLeftOut) {
  const TemporaryFolder folder;
  SmallRun run(folder.path(), 41);
  run.config.eval_every = 40;
  EXPECT_EQ(run.run(), LoopEnd::kFinished);
  EXPECT_EQ(run.evaluated, std::vector<int64_t>{41});
}

TEST(TrainingLoop, EndsWhenTheEvaluatorIsSatisfied) {
  const TemporaryFolder folder;
  SmallRun run(folder.path(), 100);
  run.good_enough_at = 8;
  EXPECT_EQ(run.run(), LoopEnd::kFinished);
  EXPECT_EQ(run.batches.size(), 8u);
}

TEST(TrainingLoop, ExtraStateIsSavedAndRestored) {
  const TemporaryFolder folder;
  SmallRun first(folder.path(), 8);
  first.run();
  SmallRun second(folder.path(), 10);
  second.run();
  EXPECT_EQ(second.batches, (std::vector<int64_t>{8, 9}));
  EXPECT_EQ(second.stage, 3) << "evaluated at 4, 8 and 10";
  SmallRun whole(folder / "whole", 10);
  whole.run();
  EXPECT_EQ(model_hash(*second.model), model_hash(*whole.model));
}

TEST(TrainingLoop, AnInterruptedEvaluationIsMadeUpForAfterResuming) {
  for (const int64_t interrupted : {4, 6}) {  // in the middle, at the end
    const TemporaryFolder folder;
    SmallRun first(folder.path(), 6);
    first.interrupted_evaluation = interrupted;
    first.before_batch = [&](int64_t step) {
      if (step == 4 && interrupted == 4) first.loop->save();  // what a stopped run does
    };
    EXPECT_EQ(first.run(), interrupted == 6 ? LoopEnd::kStopped : LoopEnd::kFinished);
    set_aside_newer(first.checkpoints, interrupted);
    SmallRun second(folder.path(), 6);
    EXPECT_EQ(second.run(), LoopEnd::kFinished);
    EXPECT_EQ(second.evaluated, interrupted == 6 ? std::vector<int64_t>{6} : (std::vector<int64_t>{4, 6}));
    SmallRun third(folder.path(), 6);
    third.run();
    EXPECT_TRUE(third.evaluated.empty()) << "once is enough";
  }
}

// A link to itself cannot be looked at, even by root, as little as a share that is gone.
TEST(TrainingLoop, ACheckpointFolderThatCannotBeReadDoesNotEndTraining) {
  const TemporaryFolder folder;
  SmallRun run(folder.path(), 6);
  run.config.checkpoint_every = 1;
  run.before_batch = [&](int64_t step) {
    if (step == 2) {
      fs::rename(run.checkpoints, folder / "aside");
      fs::create_directory_symlink(run.checkpoints, run.checkpoints);
    }
    if (step == 4) {
      fs::remove(run.checkpoints);
      fs::rename(folder / "aside", run.checkpoints);
    }
  };
  EXPECT_EQ(run.run(), LoopEnd::kFinished);
  ASSERT_EQ(run.warnings.size(), 2u);
  EXPECT_NE(run.warnings[0].find("step 3"), std::string::npos) << run.warnings[0];
  EXPECT_EQ(run.loop->last_checkpoint(), checkpoint_folder(run.checkpoints, 6));
}

}  // namespace
}  // namespace pmnet
