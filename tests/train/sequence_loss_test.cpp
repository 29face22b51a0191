#include "train/sequence_loss.h"

#include <gtest/gtest.h>

#include "support/counting_allocator.h"
#include "support/differences.h"
#include "support/one_thread.h"
#include "support/small_model.h"

namespace pmnet {
namespace {

using Gradients = std::vector<std::pair<std::string, Tensor>>;

struct Outcome {
  LossSum sum;
  Gradients gradients;
};

Outcome run(PMNet& model, const SequenceBatch& batch, const LossOptions& options) {
  model.require_gradients(true);
  Outcome outcome{loss_and_gradients(model, batch, options), {}};
  for (auto& [name, p] : model.named_parameters()) {
    outcome.gradients.emplace_back(name, p.grad().defined() ? p.grad() : at::zeros_like(p));
    p.mutable_grad() = Tensor();
  }
  return outcome;
}

struct Worst {
  double error = 0;  // of the tensor's largest entry
  std::string name;
};

Worst compare(const Gradients& got, const Gradients& want) {
  Worst worst;
  for (size_t i = 0; i < want.size(); ++i) {
    const double largest = std::max(want[i].second.abs().max().item<double>(), 1e-12);
    const double error = largest_difference(got[i].second, want[i].second) / largest;
    if (!(error <= worst.error)) worst = {error, want[i].first};
  }
  return worst;
}

struct ChunkCase {
  std::string name;
  PmnetConfig config;
  double dropout = 0;
  bool padded = false;
  bool straight_through = false;
  ops::Implementation implementation = ops::Implementation::kFast;
};

constexpr int64_t kTime = 96;

PmnetConfig with_keys(MemoryKeys keys) {
  PmnetConfig c = small_config();
  c.memory_keys = keys;
  c.memory_values = MemoryValues::kBare;
  return c;
}

// The batch and the options of one pass; the padding of row 1 is neither read nor scored.
std::pair<SequenceBatch, LossOptions> setup(const ChunkCase& c) {
  const Tensor ids = random_ids(c.config, 2, kTime);
  SequenceBatch batch{ids, next_byte_targets(ids)};
  LossOptions options;
  options.forward.training = true;
  options.forward.dropout = {.seed = 5, .step = 17, .samples = {3, 900}};
  options.forward.memory.straight_through = c.straight_through;
  options.scale = 1.0 / (2 * kTime);
  if (c.padded) {
    options.forward.lengths = at::tensor({kTime, int64_t{41}}, at::kLong);
    batch.targets[1].narrow(0, 40, kTime - 40).fill_(-1);
  }
  return {batch, options};
}

class ChunkedGradients : public testing::TestWithParam<ChunkCase> {};

TEST_P(ChunkedGradients, EqualTheOnesOfOnePass) {
  ChunkCase c = GetParam();
  c.config.attention_dropout = c.dropout;
  const ops::ImplementationGuard guard(c.implementation);
  const OneThread one_thread;
  const auto model = small_model(c.config);
  auto [batch, options] = setup(c);
  const Outcome whole = run(*model, batch, options);
  for (const auto& [name, gradient] : whole.gradients) EXPECT_GT(gradient.abs().max().item<double>(), 0) << name;
  for (const int64_t chunk : {int64_t{1}, int64_t{7}, int64_t{64}, kTime}) {
    options.chunk = chunk;
    const Outcome chunked = run(*model, batch, options);
    const Worst worst = compare(chunked.gradients, whole.gradients);
    EXPECT_LE(worst.error, 1e-5) << "chunk " << chunk << ": " << worst.name;
    EXPECT_NEAR(chunked.sum.loss, whole.sum.loss, 1e-5 * whole.sum.loss);
    EXPECT_EQ(chunked.sum.bytes, whole.sum.bytes);
  }
}

TEST_P(ChunkedGradients, AreWrongWithPerChunkCounts) {
  ChunkCase c = GetParam();
  c.config.attention_dropout = c.dropout;
  const ops::ImplementationGuard guard(c.implementation);
  const OneThread one_thread;
  const auto model = small_model(c.config);
  auto [batch, options] = setup(c);
  const Outcome whole = run(*model, batch, options);
  options.count_writes_per_chunk = true;
  for (const int64_t chunk : {1, 7, 64}) {
    options.chunk = chunk;
    EXPECT_GT(compare(run(*model, batch, options).gradients, whole.gradients).error, 1e-2) << "chunk " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, ChunkedGradients,
    testing::Values(
        ChunkCase{.name = "plain", .config = small_config()},
        ChunkCase{.name = "dropout", .config = small_config(), .dropout = 0.2},
        ChunkCase{.name = "full_attention_mix", .config = with_full_attention(small_config()), .dropout = 0.2},
        ChunkCase{.name = "anchor_keys_bare_values", .config = with_keys(MemoryKeys::kAnchor)},
        ChunkCase{.name = "both_keys_bare_values", .config = with_keys(MemoryKeys::kBoth)},
        ChunkCase{.name = "chain", .config = as_chain(small_config())},
        ChunkCase{.name = "ngrams", .config = with_ngrams(small_config())},
        ChunkCase{.name = "padded_ngrams", .config = with_ngrams(small_config()), .padded = true},
        ChunkCase{.name = "straight_through", .config = small_config(), .padded = true, .straight_through = true},
        ChunkCase{.name = "padded", .config = small_config(), .dropout = 0.2, .padded = true},
        ChunkCase{.name = "padded_full", .config = with_full_attention(small_config()), .padded = true},
        ChunkCase{.name = "reference", .config = small_config(), .implementation = ops::Implementation::kReference}),
    [](const auto& info) { return info.param.name; });

TEST(SequenceLoss, DropoutChangesTheLossAndOtherStepsDropOtherBits) {
  ChunkCase c{.name = "", .config = small_config()};
  c.config.attention_dropout = 0.3;
  const auto model = small_model(c.config);
  auto [batch, options] = setup(c);
  const double first = run(*model, batch, options).sum.loss;
  options.forward.dropout.step = 18;
  EXPECT_GT(std::abs(run(*model, batch, options).sum.loss - first), 1e-3);
  options.forward.training = false;
  EXPECT_GT(std::abs(run(*model, batch, options).sum.loss - first), 1e-3);
}

TEST(SequenceLoss, PaddingChangesNothing) {
  const auto model = small_model(small_config());
  const Tensor ids = random_ids(small_config(), 1, 30);
  LossOptions options;
  options.forward.training = true;
  const Outcome alone = run(*model, {ids, next_byte_targets(ids)}, options);
  for (const int64_t chunk : {0, 7}) {
    const Tensor padded = at::constant_pad_nd(ids, {0, 20}, 5);
    const Tensor targets = at::constant_pad_nd(next_byte_targets(ids), {0, 20}, -1);
    options.chunk = chunk;
    options.forward.lengths = at::tensor({30}, at::kLong);
    const Outcome with_padding = run(*model, {padded, targets}, options);
    EXPECT_NEAR(with_padding.sum.loss, alone.sum.loss, 1e-5 * alone.sum.loss);
    EXPECT_EQ(with_padding.sum.bytes, alone.sum.bytes);
    const Worst worst = compare(with_padding.gradients, alone.gradients);
    EXPECT_LE(worst.error, 1e-5) << worst.name;
  }
}

TEST(SequenceLoss, AStateCarriedOverGivesTheSecondHalfOfTheLoss) {
  const auto model = small_model(small_config());
  const Tensor ids = random_ids(small_config(), 2, 60), targets = next_byte_targets(ids);
  LossOptions options;
  const double whole = run(*model, {ids, targets}, options).sum.loss;
  for (const int64_t chunk : {0, 7}) {
    ModelState middle;
    options.chunk = chunk;
    options.initial = nullptr;
    options.final_state = &middle;
    double halves = run(*model, {ids.narrow(1, 0, 25), targets.narrow(1, 0, 25)}, options).sum.loss;
    const ModelState carried = middle;
    options.initial = &carried;
    halves += run(*model, {ids.narrow(1, 25, 35), targets.narrow(1, 25, 35)}, options).sum.loss;
    EXPECT_NEAR(halves, whole, 1e-5 * whole);
    EXPECT_EQ(middle.positions[0].item<int64_t>(), 60);
  }
}

TEST(SequenceLoss, BetweenChunksTheCallerMayStop) {
  const auto model = small_model(small_config());
  const Tensor ids = random_ids(small_config(), 1, 40);
  LossOptions options;
  options.chunk = 10;
  int calls = 0;
  options.between = [&] { ++calls; };
  run(*model, {ids, next_byte_targets(ids)}, options);
  EXPECT_EQ(calls, 8);  // forward and backward of each chunk
  options.between = [] { throw std::runtime_error("stop"); };
  EXPECT_THROW(run(*model, {ids, next_byte_targets(ids)}, options), std::runtime_error);
}

TEST(SequenceLoss, MemoryIsOneChunkAndTheBoundaryStates) {
  constexpr int64_t kLong = 32 * 1024, kChunk = 512;
  PmnetConfig config = small_config();
  config.sliding_window = 32;
  const auto model = small_model(config);
  const Tensor ids = random_ids(config, 1, kLong), targets = next_byte_targets(ids);
  LossOptions options;
  options.forward.training = true;
  options.chunk = kChunk;
  run(*model, {ids.narrow(1, 0, 2 * kChunk), targets.narrow(1, 0, 2 * kChunk)}, options);  // warm

  ModelState state;
  LossOptions one = options;
  one.chunk = 0;
  one.final_state = &state;
  const ModelState before = model->initial_state(1);
  one.initial = &before;
  const int64_t one_chunk =
      peak_bytes([&] { run(*model, {ids.narrow(1, 0, kChunk), targets.narrow(1, 0, kChunk)}, one); });
  const int64_t states = (kLong / kChunk) * state.bytes();
  const int64_t whole = peak_bytes([&] { run(*model, {ids, targets}, options); });
  EXPECT_LE(whole, 1.3 * (one_chunk + states)) << "one chunk " << one_chunk << ", states " << states;
  // The measure means something: without chunks the same sequence needs far more.
  const int64_t quarter =
      peak_bytes([&] { run(*model, {ids.narrow(1, 0, kLong / 4), targets.narrow(1, 0, kLong / 4)}, one); });
  EXPECT_GT(quarter, 2 * whole);
}

}  // namespace
}  // namespace pmnet
