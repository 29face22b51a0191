#include "config/model_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "config/presets.h"

namespace pmnet {
namespace {

std::string only_problem(const ModelConfig& config) {
  const auto found = problems(config);
  return found.size() == 1 ? found[0] : std::to_string(found.size()) + " problems";
}

TEST(PmnetConfig, DerivedSizes) {
  PmnetConfig config = preset("119m");
  EXPECT_EQ(config.num_levels(), 4);
  EXPECT_EQ(config.num_groups(3), 64);
  EXPECT_EQ(config.total_groups(), 85);
  EXPECT_EQ(config.query_width(), 768);
  config.num_layers = 13;
  EXPECT_EQ(config.num_levels(), 5);
  EXPECT_TRUE(config.writes(3));
  EXPECT_FALSE(config.writes(4));
  EXPECT_EQ(config.level_of(11), 3);
}

TEST(PmnetConfig, TheTreeCannotOverflow) {
  PmnetConfig config = preset("119m");
  config.num_layers = 60'000;
  config.write_period = 1;
  config.layer_types.assign(60'000, LayerType::kSliding);
  EXPECT_EQ(config.num_groups(59'999), INT64_MAX);
  EXPECT_EQ(config.total_groups(), INT64_MAX);
  EXPECT_NE(only_problem(config).find("more than 2^24 groups"), std::string::npos);
  config.num_memory = 1;
  EXPECT_EQ(config.num_groups(59'999), 1);
  EXPECT_EQ(config.total_groups(), 60'000);
}

TEST(PmnetConfig, TheWholeModelIsLimited) {
  PmnetConfig config = preset("119m");
  config.hidden_size = kMaxWidth;
  config.intermediate_size = kMaxWidth;
  EXPECT_NE(only_problem(config).find("at most 2^40"), std::string::npos);
}

TEST(PmnetConfig, BinaryVariantNeedsTheIds) {
  PmnetConfig config = preset("tiny");
  config.bos_token_id = 256;
  config.eos_token_id = 257;
  EXPECT_TRUE(problems(config).empty());
  config.vocab_size = 258;
  EXPECT_TRUE(problems(config).empty());
  config.vocab_size = 257;
  EXPECT_EQ(only_problem(config), "eos_token_id is 257, expected 0 to vocab_size - 1 = 256");
  config.vocab_size = 255;
  EXPECT_EQ(only_problem(config), "vocab_size is 255, expected 256 to 16777216");
}

TEST(PmnetConfig, NumbersThatAreNoNumbers) {
  for (const double bad : {std::nan(""), -1.0, 1.0, HUGE_VAL}) {
    PmnetConfig config = preset("tiny");
    config.attention_dropout = bad;
    EXPECT_NE(only_problem(config).find("attention_dropout"), std::string::npos) << bad;
  }
  for (const double bad : {std::nan(""), -1.0, 0.0, HUGE_VAL}) {
    PmnetConfig config = preset("tiny");
    config.rms_norm_eps = bad;
    EXPECT_NE(only_problem(config).find("rms_norm_eps"), std::string::npos) << bad;
  }
}

// Decoding keeps w keys and values per layer.
TEST(PmnetConfig, TheWindowIsLimited) {
  PmnetConfig config = preset("tiny");
  config.sliding_window = kMaxWindow;
  EXPECT_TRUE(problems(config).empty());
  config.sliding_window = kMaxPosition;
  EXPECT_EQ(only_problem(config), "sliding_window is 2147483647, expected 1 to 1048576");
}

TEST(PmnetConfig, EmptyConfigsNameEverySize) {
  EXPECT_GE(problems(PmnetConfig{}).size(), 11u);
  EXPECT_GE(problems(TransformerConfig{}).size(), 6u);
  EXPECT_GE(problems(MambaConfig{}).size(), 4u);
}

TEST(MambaConfig, InnerWidthIsAMultiple) {
  MambaConfig config = mamba_like(preset("tiny"));
  config.intermediate_size += 1;
  EXPECT_NE(only_problem(config).find("a multiple of hidden_size"), std::string::npos);
  config = mamba_like(preset("tiny"));
  config.time_step_min = 0.5;
  EXPECT_EQ(only_problem(config), "time_step_min is 0.5, expected at most time_step_max = 0.1");
}

}  // namespace
}  // namespace pmnet
