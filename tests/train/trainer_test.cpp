#include "train/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "fixture.h"
#include "train/batch_source.h"
#include "train/run_files.h"
#include "train/run_setup.h"

namespace pmnet {
namespace {

// One rank with everything it needs; `group` decides which part of the batches it sees.
struct Rank {
  ProcessGroup& group;
  LoadedModel loaded;
  Trainer trainer;
  BatchSource source;
  StopCheck stop;

  Rank(const TrainConfig& config, ProcessGroup& g)
      : group(g),
        loaded(make_run_model(config, g)),
        trainer(*loaded.model, config, g),
        source(open_run_data(config, [] {}).train, config, framing_of(*loaded.model), g, 0),
        stop(g) {}

  StepReport step() { return trainer.step(source.next(stop).value(), stop); }
};

int free_port() {
  static int next = 20'000 + static_cast<int>(::getpid() % 20'000);
  return next++;
}

// Runs `body` as each of two ranks, in a thread of its own.
template <typename Body>
void on_two_ranks(const Body& body) {
  const int port = free_port();
  const auto run = [&](int rank) {
    Launch launch;
    launch.rank = rank;
    launch.world = launch.local_world = 2;
    launch.address = "127.0.0.1";
    launch.port = port;
    ProcessGroup group(launch, std::chrono::seconds(20));
    body(group);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

std::vector<double> losses_of(const TrainConfig& config, int steps) {
  ProcessGroup group;
  Rank rank(config, group);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(rank.step().loss);
  return losses;
}

std::vector<Tensor> weights_of(LanguageModel& model) {
  std::vector<Tensor> weights;
  for (const auto& [name, tensor] : model.named_parameters()) weights.push_back(tensor.detach().clone());
  return weights;
}

void expect_same_bits(LanguageModel& model, const std::vector<Tensor>& before) {
  size_t next = 0;
  for (const auto& [name, tensor] : model.named_parameters()) EXPECT_TRUE(at::equal(tensor, before.at(next++))) << name;
}

double worst_relative(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) worst = std::max(worst, std::abs(a[i] / b[i] - 1));
  return worst;
}

TEST(Trainer, ReproducesTheRecordedTrace) {
  const auto trace = load_tensors(std::filesystem::path(PMNET_FIXTURES) / "base" / "training.safetensors");
  const Fixture fixture = load_fixture("base");
  const Tensor ids = fixture.expected.at("input_ids");
  Batch batch;
  batch.rows = ids.size(0);
  batch.context = ids.size(1);
  for (int64_t r = 0; r < batch.rows; ++r) {
    for (int64_t t = 0; t <= batch.context; ++t) {
      batch.ids.push_back(t < batch.context ? ids[r][t].item<int64_t>() : 0);
      if (t < batch.context) batch.loss_mask.push_back(t + 1 < batch.context);
    }
    batch.lengths.push_back(batch.context);
    batch.continues.push_back(0);
    batch.sample_ids.push_back(r);
  }
  TrainConfig config;
  config.learning_rate = 1e-3;
  config.min_lr_ratio = 1;
  config.warmup = 0;
  config.decay_everything = true;
  const auto model = model_of(fixture);
  ProcessGroup group;
  StopCheck stop(group);
  Trainer trainer(*model, config, group);
  const Tensor losses = trace.at("losses").to(at::kDouble), norms = trace.at("grad_norms").to(at::kDouble);
  ASSERT_EQ(losses.numel(), 10);
  for (int64_t step = 0; step < losses.numel(); ++step) {
    const StepReport report = trainer.step(batch, stop);
    EXPECT_NEAR(report.loss / losses[step].item<double>(), 1, 1e-4) << step;
    EXPECT_NEAR(report.gradient_norm / norms[step].item<double>(), 1, 1e-3) << step;
  }
}

TEST(Trainer, LearnsAndRepeatsItselfBitByBit) {
  RunFiles files;
  const std::vector<double> first = losses_of(files.config, 30);
  EXPECT_LT(first.back(), 0.8 * first.front());
  EXPECT_EQ(first, losses_of(files.config, 30));
  files.config.seed = 1;
  EXPECT_NE(first, losses_of(files.config, 30));
}

TEST(Trainer, AccumulationAndChunksChangeOnlyTheRounding) {
  RunFiles files;
  const std::vector<double> whole = losses_of(files.config, 20);
  files.config.accumulation = 4;
  EXPECT_LT(worst_relative(losses_of(files.config, 20), whole), 1e-5);
  files.config.accumulation = 2;
  files.config.chunk = 17;
  EXPECT_LT(worst_relative(losses_of(files.config, 20), whole), 1e-5);
}

TEST(Trainer, TwoRanksEqualOneWithTheSameBatches) {
  RunFiles files;
  for (const bool carry : {false, true}) {
    files.config.carry = carry;
    files.config.chunk = carry ? 20 : 0;
    const std::vector<double> alone = losses_of(files.config, 50);
    std::vector<double> together[2];
    std::vector<Tensor> weights[2];
    on_two_ranks([&](ProcessGroup& group) {
      Rank rank(files.config, group);
      for (int i = 0; i < 50; ++i) together[group.rank()].push_back(rank.step().loss);
      weights[group.rank()] = weights_of(*rank.loaded.model);
      const std::optional<State> carried = rank.trainer.gather_carried();
      EXPECT_EQ(carried.has_value(), carry);
      if (carried) {
        EXPECT_EQ(carried->batch(), files.config.batch);
      }
    });
    EXPECT_LT(worst_relative(together[0], alone), 1e-5) << "carry " << carry;
    EXPECT_EQ(together[0], together[1]);
    for (size_t i = 0; i < weights[0].size(); ++i) EXPECT_TRUE(at::equal(weights[0][i], weights[1][i]));
  }
}

TEST(Trainer, CarriedMemoryMatters) {
  RunFiles files;
  files.config.split_on = "";  // one long document
  files.config.carry = true;
  ProcessGroup group;
  Rank with(files.config, group), without(files.config, group);
  for (int i = 0; i < 3; ++i) {
    Batch batch = with.source.next(with.stop).value();
    const double carried = with.trainer.step(batch, with.stop).loss;
    std::fill(batch.continues.begin(), batch.continues.end(), 0);
    const double fresh = without.trainer.step(batch, without.stop).loss;
    EXPECT_EQ(carried == fresh, i == 0) << i;
  }
}

TEST(Trainer, NotFiniteOnOneRankSkipsTheUpdateOnAll) {
  RunFiles files;
  on_two_ranks([&](ProcessGroup& group) {
    Rank rank(files.config, group);
    rank.step();
    const std::vector<Tensor> before = weights_of(*rank.loaded.model);
    Tensor norm = rank.loaded.model->named_parameters().back().second.detach();
    const Tensor sound = norm.clone();
    if (group.rank() == 1) norm.fill_(NAN);
    EXPECT_EQ(rank.step().outcome, StepOutcome::kNotFinite);
    norm.copy_(sound);
    expect_same_bits(*rank.loaded.model, before);
    EXPECT_EQ(rank.trainer.progress().skipped, 1);
    EXPECT_EQ(rank.trainer.progress().not_finite_in_a_row, 1);
    EXPECT_EQ(rank.step().outcome, StepOutcome::kUpdated);
    EXPECT_EQ(rank.trainer.progress().not_finite_in_a_row, 0);
    EXPECT_EQ(rank.trainer.progress().step, 3);
  });
}

TEST(Trainer, SpikesAreSkippedWhenAsked) {
  RunFiles files;
  files.config.spike_z = 6;
  files.config.spike_window = 8;
  ProcessGroup group;
  Rank rank(files.config, group);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(rank.step().outcome, StepOutcome::kUpdated);
  Tensor norm = rank.loaded.model->named_parameters().back().second.detach();
  norm.mul_(50);
  const std::vector<Tensor> before = weights_of(*rank.loaded.model);
  EXPECT_EQ(rank.step().outcome, StepOutcome::kSpike);
  expect_same_bits(*rank.loaded.model, before);
}

TEST(Trainer, PromptsAreNotTrainedOn) {
  RunFiles files;
  std::ofstream(files.folder / "pairs.jsonl") << "{\"prompt\": \"abcdefgh\", \"completion\": \"xyz\"}\n";
  files.config.inputs = {(files.folder / "pairs.jsonl").string()};
  files.config.samples = "document";
  files.config.hold_out = "none";
  ProcessGroup group;
  Rank rank(files.config, group);
  EXPECT_EQ(rank.step().scored, 4 * 4);  // three bytes and EOS in each of four rows
}

TEST(Trainer, TheContextFollowsItsSchedule) {
  RunFiles files;
  files.config.context_schedule = {"2:64", "3:16"};
  ProcessGroup group;
  Rank rank(files.config, group);
  for (const int64_t context : {48, 48, 64, 16, 16}) EXPECT_EQ(rank.source.next(rank.stop)->context, context);
}

TEST(Trainer, BaselinesTrainToo) {
  for (const char* name : {"llama", "mamba"}) {
    RunFiles files(name);
    const std::vector<double> losses = losses_of(files.config, 20);
    EXPECT_LT(losses.back(), losses.front()) << name;
  }
}

}  // namespace
}  // namespace pmnet
