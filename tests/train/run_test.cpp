#include "train/run.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "base/file_calls.h"
#include "model/model_folder.h"
#include "model/tensors.h"
#include "report/metrics_log.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/run_files.h"
#include "train/estimate.h"
#include "train/run_checkpoint.h"
#include "train/run_setup.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

RunSummary run(const TrainConfig& config, const fs::path& out, bool resume = false) {
  ProcessGroup group;
  return run_training(config, {.out = out, .resume = resume, .force = false}, group);
}

std::string error_of(const TrainConfig& config, const fs::path& out, bool resume = false) {
  return user_error_of([&] { run(config, out, resume); });
}

std::vector<double> logged(const fs::path& out, const std::string& name) {
  std::vector<double> values;
  auto series = read_metrics((out / "metrics.jsonl").string());
  for (const MetricPoint& point : series.by_name[name]) values.push_back(point.value);
  return values;
}

// The folder as it was when a run had just saved `step`; its log goes further, as after a crash.
void rewind_to(const fs::path& run, const fs::path& copy, int64_t step) {
  fs::copy(run, copy, fs::copy_options::recursive);
  for (const int64_t saved : checkpoint_steps(copy / "ckpt"))
    if (saved > step) fs::remove_all(checkpoint_folder(copy / "ckpt", saved));
}

void expect_same_state(const fs::path& one, const fs::path& other) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(whole_file(one / file), whole_file(other / file)) << file;
  EXPECT_EQ(fs::exists(one / "carry.safetensors"), fs::exists(other / "carry.safetensors"));
  EXPECT_EQ(whole_file(one / "carry.safetensors"), whole_file(other / "carry.safetensors"));
}

TEST(Run, ResumesBitByBitFromEveryStep) {
  for (const bool carry : {false, true}) {
    RunFiles files;
    TrainConfig config = files.config;
    config.carry = carry;
    config.chunk = carry ? 32 : 0;
    config.steps = 11;
    config.context_schedule = {"6:40"};
    config.checkpoint_every = 1;
    config.keep = 100;
    config.spike_z = 50;
    config.spike_window = 8;
    const RunSummary whole = run(config, files.folder / "whole");
    EXPECT_EQ(whole.end, RunSummary::End::kFinished);
    const std::vector<double> losses = logged(files.folder / "whole", "train/loss");
    ASSERT_EQ(losses.size(), 11u);
    for (int64_t step = 1; step <= 10; ++step) {
      const fs::path copy = files.folder / ("from" + std::to_string(step));
      rewind_to(files.folder / "whole", copy, step);
      const RunSummary resumed = run(config, copy, /*resume=*/true);
      EXPECT_EQ(resumed.step, 11);
      EXPECT_EQ(logged(copy, "train/loss"), losses) << "from step " << step;
      EXPECT_EQ(logged(copy, "train/grad_norm"), logged(files.folder / "whole", "train/grad_norm"));
      expect_same_state(whole.checkpoint, resumed.checkpoint);
    }
  }
}

TEST(Run, LeavesEverythingAPersonLooksFor) {
  RunFiles files;
  TrainConfig config = files.config;
  config.eval_every = config.sample_every = 10;
  config.checkpoint_every = 5;
  const RunSummary summary = run(config, files.folder / "run");
  EXPECT_EQ(summary.step, 20);
  ASSERT_TRUE(summary.validation_bpb);
  EXPECT_LT(*summary.validation_bpb, 8);
  EXPECT_GT(summary.bytes_per_second, 0);
  EXPECT_EQ(summary.checkpoint.filename(), "step-00000020");
  for (const char* name : {"run.toml", "metrics.jsonl", "samples/step-00000010.txt", "samples/step-00000020.txt"})
    EXPECT_TRUE(fs::exists(files.folder / "run" / name)) << name;
  EXPECT_EQ(logged(files.folder / "run", "val/bpb").size(), 2u);
  for (int level = 0; level < 3; ++level)
    for (const char* kind : {"entropy", "largest_share", "mean_abs_phase"})
      EXPECT_EQ(logged(files.folder / "run", fmt::format("memory/level_{}/{}", level, kind)).size(), 2u) << kind;
  EXPECT_GE(checkpoint_steps(files.folder / "run" / "ckpt").size(), 2u);
  EXPECT_EQ(run(config, files.folder / "run", /*resume=*/true).end, RunSummary::End::kFinishedBefore);
}

TEST(Run, StopsAfterTooManyLossesThatAreNotFinite) {
  RunFiles files;
  const fs::path poisoned = files.folder / "model";
  LoadedModel model = load_model(files.config.init);
  model.model->named_parameters().back().second.fill_(NAN);
  save_model(poisoned, *model.model, model.config);
  TrainConfig config = files.config;
  config.init = poisoned.string();
  config.max_not_finite = 4;
  const RunSummary summary = run(config, files.folder / "run");
  EXPECT_EQ(summary.end, RunSummary::End::kNotFinite);
  EXPECT_EQ(summary.step, 4);
  EXPECT_EQ(whole_file(summary.checkpoint / "model.safetensors"), whole_file(poisoned / "model.safetensors"));
}

// Folders of checkpoints, by their temporary names, do not fit on the disk; the run's own folders exist.
int no_space(const char* path, mode_t mode) {
  if (std::string_view(path).find(".tmp-") == std::string_view::npos) return ::mkdir(path, mode);
  errno = ENOSPC;
  return -1;
}

TEST(Run, GoesOnWhenTheDiskIsFull) {
  RunFiles files;
  TrainConfig config = files.config;
  config.checkpoint_every = 5;
  fs::create_directory(files.folder / "run");
  const auto make_folder = file_calls().mkdir;
  file_calls().mkdir = no_space;
  const std::string error = error_of(config, files.folder / "run");
  file_calls().mkdir = make_folder;
  EXPECT_NE(error.find("could not be saved"), std::string::npos) << "only the last save decides: " << error;
  EXPECT_EQ(logged(files.folder / "run", "train/loss").size(), 20u);
}

// After falling back, the steps trained again have lower numbers than the damaged checkpoints.
TEST(Run, DamagedCheckpointsAreSetAsideAndCostNoGoodOne) {
  RunFiles files;
  const fs::path out = files.folder / "run", damaged = checkpoint_folder(out / "ckpt", 12);
  TrainConfig config = files.config;
  config.steps = 12;
  config.checkpoint_every = 4;
  run(config, out);
  fs::resize_file(damaged / "model.safetensors", fs::file_size(damaged / "model.safetensors") - 1);
  config.steps = 10;
  config.checkpoint_every = 1;
  config.keep = 1;
  config.keep_best = false;
  EXPECT_EQ(run(config, out, /*resume=*/true).step, 10);
  EXPECT_EQ(checkpoint_steps(out / "ckpt"), std::vector<int64_t>{10});
  EXPECT_TRUE(fs::exists(out / "ckpt" / ".damaged-step-00000012"));
  config.steps = 13;
  EXPECT_EQ(run(config, out, /*resume=*/true).step, 13);
}

TEST(Run, ASignalSavesTheLastStepAndTheRunGoesOnFromThere) {
  RunFiles files;
  TrainConfig config = files.config;
  config.steps = 100'000;
  std::thread killer([&] {
    while (!fs::exists(files.folder / "run" / "metrics.jsonl") || logged(files.folder / "run", "train/loss").size() < 5)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::raise(SIGTERM);
  });
  const RunSummary stopped = run(config, files.folder / "run");
  killer.join();
  EXPECT_EQ(stopped.end, RunSummary::End::kStopped);
  EXPECT_GE(stopped.step, 5);
  EXPECT_EQ(open_run_checkpoint(stopped.checkpoint).step, stopped.step);
  config.steps = stopped.step + 2;
  EXPECT_EQ(run(config, files.folder / "run", /*resume=*/true).step, stopped.step + 2);
}

TEST(Run, RefusesBeforeTheFirstStepWhatCannotWork) {
  RunFiles files;
  const fs::path out = files.folder / "run";
  const auto expect = [&](const TrainConfig& config, const char* part, bool resume = false) {
    const std::string error = error_of(config, out, resume);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  TrainConfig config = files.config;
  config.inputs = {(files.folder / "missing.txt").string()};
  expect(config, "missing.txt");
  std::ofstream(files.folder / "empty.txt").flush();
  config.inputs = {(files.folder / "empty.txt").string()};
  expect(config, "the corpus is empty");
  config = files.config;
  config.context = config.batch = 1 << 20;
  expect(config, "--force");
  config = files.config;
  config.architecture = Architecture::kMamba;
  expect(config, "leave model.arch out");
  config = files.config;
  config.device = Device::kCuda;
  if (!at::hasCUDA()) expect(config, "no CUDA device");
  EXPECT_FALSE(fs::exists(out)) << "nothing of a run that never began";

  config = files.config;
  config.steps = 2;
  run(config, out);
  expect(config, "--resume");
  config.seed = 9;
  expect(config, "train.seed is 0 there and 9 here", /*resume=*/true);
  config = files.config;
  std::ofstream(files.folder / "text.txt", std::ios::app) << "one more line\n";
  expect(config, "fingerprint", /*resume=*/true);
}

// Rows of 48 bytes and prompts of 900: most batches hold no byte to score.
TEST(Run, AStepThatScoresNothingHasNoLoss) {
  RunFiles files;
  std::ofstream(files.folder / "pairs.jsonl")
      << "{\"prompt\": \"" << std::string(900, 'p') << "\", \"completion\": \"xyz\"}\n";
  TrainConfig config = files.config;
  config.inputs = {(files.folder / "pairs.jsonl").string()};
  config.hold_out.by = HoldOut::By::kNone;
  config.batch = 1;
  config.steps = 30;
  run(config, files.folder / "run");
  EXPECT_EQ(logged(files.folder / "run", "train/lr").size(), 30u);
  const std::vector<double> losses = logged(files.folder / "run", "train/loss");
  EXPECT_GT(losses.size(), 0u);
  EXPECT_LT(losses.size(), 30u);
  EXPECT_EQ(logged(files.folder / "run", "train/grad_norm").size(), losses.size());
  for (const double loss : losses) EXPECT_GT(loss, 0);
}

// What a model from elsewhere calls its tensors must not reach the terminal as commands.
TEST(Run, WarningsAreEscaped) {
  RunFiles files;
  LoadedModel loaded = load_model(files.config.init);
  NamedTensors tensors = loaded.model->named_parameters();
  tensors.emplace_back("bell\x1b]0;x\x07", at::zeros({1}));
  fs::create_directory(files.folder / "strange");
  write_model_files(files.folder / "strange", tensors, loaded.config);
  files.config.init = (files.folder / "strange").string();
  files.config.steps = 1;
  testing::internal::CaptureStderr();
  run(files.config, files.folder / "run");
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_NE(printed.find("bell\\x1b]0;x\\x07"), std::string::npos) << printed;
}

TEST(Run, AShapeAndAnArchitectureMakeTheMatchingBaseline) {
  RunFiles files;
  TrainConfig config = files.config;
  std::swap(config.model_config, config.init);
  for (const Architecture architecture : {Architecture::kPmnet, Architecture::kTransformer}) {
    config.architecture = architecture;
    EXPECT_EQ(architecture_of(model_config_of(config)), architecture);
  }
}

TEST(Run, EstimatesWithoutLeavingATrace) {
  RunFiles files;
  ProcessGroup group;
  const RunEstimate estimate = estimate_run(files.config, /*force=*/false, group);
  EXPECT_EQ(estimate.steps, 20);
  EXPECT_GT(estimate.parameters, 10'000);
  EXPECT_GT(estimate.seconds_per_step, 0);
  EXPECT_GT(total(estimate.memory), 0);
  EXPECT_EQ(estimate.bytes_per_step, 4 * 48);
}

}  // namespace
}  // namespace pmnet
