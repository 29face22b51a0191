#include "config/costs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "config/presets.h"

namespace pmnet {
namespace {

double part(const std::vector<CostPart>& parts, const std::string& name) {
  for (const CostPart& candidate : parts) {
    if (candidate.name == name) return candidate.amount;
  }
  ADD_FAILURE() << "no part named " << name;
  return 0;
}

double millions(double amount) { return std::round(amount / 1e5) / 10; }

TEST(Costs, PublishedParameterCounts) {
  EXPECT_EQ(parameter_count(preset("119m")), 118'970'368);
  EXPECT_EQ(parameter_count(preset("30m")), 29'863'680);
}

TEST(Costs, MultiplyAddsOfThePaperModels) {
  const auto big = multiply_adds_per_token(preset("119m"), 2048);
  EXPECT_EQ(millions(part(big, "read K")), 100.7);
  EXPECT_EQ(millions(part(big, "read V, q, o")), 50.3);
  EXPECT_EQ(millions(part(big, "write")), 11.5);
  EXPECT_EQ(millions(part(big, "attention") + part(big, "feed-forward")), 40.1);
  EXPECT_EQ(millions(total(big)), 202.8);
  EXPECT_NEAR(training_flop_per_byte(preset("119m"), 2048), 1.22e9, 0.005e9);

  const auto small = multiply_adds_per_token(preset("30m"), 2048);
  EXPECT_EQ(millions(part(small, "read K")), 25.2);
  EXPECT_EQ(millions(part(small, "read V, q, o")), 12.6);
  EXPECT_EQ(millions(part(small, "write")), 2.9);
  EXPECT_EQ(millions(total(small)), 51.3);
  EXPECT_NEAR(training_flop_per_byte(preset("30m"), 2048), 0.31e9, 0.005e9);
}

TEST(Costs, KeysOfBothKindsCostTwice) {
  const PmnetConfig state = preset("30m");
  PmnetConfig anchor = state, both = state;
  anchor.memory_keys = MemoryKeys::kAnchor;
  both.memory_keys = MemoryKeys::kBoth;
  EXPECT_EQ(parameter_count(anchor), parameter_count(state));
  EXPECT_EQ(part(multiply_adds_per_token(both, 2048), "read K"),
            2 * part(multiply_adds_per_token(state, 2048), "read K"));
}

TEST(Costs, NgramsAreTablesAndAFewBytesOfState) {
  PmnetConfig plain = preset("1.6m");
  PmnetConfig ngrams = plain;
  ngrams.max_ngram = 5;
  ngrams.ngram_rows = 1024;
  EXPECT_EQ(parameter_count(ngrams), parameter_count(plain) + 4 * 1024 * plain.hidden_size);
  EXPECT_EQ(total(streaming_state_bytes(ngrams, 100)), total(streaming_state_bytes(plain, 100)) + 4 * 8);
  EXPECT_EQ(total(multiply_adds_per_token(ngrams, 100)), total(multiply_adds_per_token(plain, 100)));
}

TEST(Costs, OnlyFullAttentionGrowsWithTheContext) {
  const PmnetConfig model = preset("119m");
  EXPECT_EQ(total(multiply_adds_per_token(model, 2048)), total(multiply_adds_per_token(model, 512 * 1024)));
  EXPECT_LT(total(multiply_adds_per_token(model, 16)), total(multiply_adds_per_token(model, 2048)));
  const ModelConfig transformer = transformer_like(model);
  const double pmnet = total(multiply_adds_per_token(model, 2048));
  EXPECT_NEAR(pmnet / total(multiply_adds_per_token(transformer, 2048)), 1.46, 0.005);
  EXPECT_NEAR(pmnet / total(multiply_adds_per_token(transformer, 10'240)), 0.89, 0.005);
  const ModelConfig mamba = mamba_like(model);
  EXPECT_EQ(total(multiply_adds_per_token(mamba, 2048)), total(multiply_adds_per_token(mamba, 10'240)));
  EXPECT_GT(total(multiply_adds_per_token(mamba, 2048)), 1e8);
}

TEST(Costs, StreamingState) {
  const auto state = streaming_state_bytes(preset("119m"), 1'000'000);
  EXPECT_EQ(part(state, "keys and values in the window"), 12 * 127 * 2 * 768 * 4);
  EXPECT_EQ(part(state, "keys and values of full attention"), 0);
  EXPECT_EQ(part(state, "memory phases"), 85 * 4 * 512 * 8);
  PmnetConfig mixed = preset("119m");
  mixed.layer_types[0] = LayerType::kFull;
  EXPECT_EQ(part(streaming_state_bytes(mixed, 1000), "keys and values of full attention"), 1000 * 2 * 768 * 4);
  EXPECT_EQ(total(streaming_state_bytes(transformer_like(preset("119m")), 1000)), 12.0 * 1000 * 2 * 896 * 4);
  EXPECT_GT(total(streaming_state_bytes(mamba_like(preset("119m")), 0)), 24 * 1760 * 16 * 4);
}

TEST(Costs, WithoutMemoryModulesTheirCostsAreZero) {
  PmnetConfig config = preset("30m");
  config.memory_modules = false;
  EXPECT_EQ(part(parameter_parts(config), "memory read"), 0);
  EXPECT_EQ(part(parameter_parts(config), "memory embeddings"), 0);
  EXPECT_EQ(part(multiply_adds_per_token(config, 100), "write"), 0);
  EXPECT_EQ(part(streaming_state_bytes(config, 100), "memory phases"), 0);
}

TEST(Costs, TrainingMemoryHasAFixedAndAGrowingPart) {
  const ModelConfig config = preset("119m");
  const auto one = training_memory_bytes(config, 1, 2048);
  const auto two = training_memory_bytes(config, 2, 2048);
  EXPECT_EQ(part(one, "weights"), 4.0 * 118'970'368);
  EXPECT_EQ(part(two, "activations"), 2 * part(one, "activations"));
  EXPECT_EQ(part(two, "optimizer moments"), part(one, "optimizer moments"));
  EXPECT_LT(part(one, "activations"), 15.6e9);  // what the authors' code keeps for the same sequence
  EXPECT_GT(part(one, "activations"), 1e9);
}

}  // namespace
}  // namespace pmnet
