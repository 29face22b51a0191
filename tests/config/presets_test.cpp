#include "config/presets.h"

#include <gtest/gtest.h>

#include <cmath>

#include "config/config_json.h"
#include "config/costs.h"
#include "support/errors.h"

namespace pmnet {
namespace {

double relative_difference(const ModelConfig& config, double parameters) {
  return std::abs(static_cast<double>(parameter_count(config)) / parameters - 1);
}

TEST(Presets, AllAreSoundAndRoundTrip) {
  for (const std::string& name : preset_names()) {
    const PmnetConfig config = preset(name);
    EXPECT_TRUE(problems(config).empty()) << name;
    const ParsedConfig parsed = parse_config(to_json(config), name);
    EXPECT_EQ(std::get<PmnetConfig>(parsed.config), config) << name;
    EXPECT_TRUE(parsed.warnings.empty()) << name;
  }
}

TEST(Presets, NamesTellTheParameters) {
  const std::vector<std::pair<const char*, double>> sizes = {
      {"119m", 119e6}, {"30m", 30e6}, {"11m", 11e6}, {"5m", 5e6}, {"3m", 3e6}, {"1.6m", 1.6e6}, {"1m", 1e6}};
  for (const auto& [name, parameters] : sizes) EXPECT_LT(relative_difference(preset(name), parameters), 0.1) << name;
  EXPECT_LT(parameter_count(preset("tiny")), 130'000);
}

TEST(Presets, BaselinesMatchInParameters) {
  for (const std::string& name : preset_names()) {
    const PmnetConfig model = preset(name);
    const double parameters = static_cast<double>(parameter_count(model));
    const TransformerConfig transformer = transformer_like(model);
    const MambaConfig mamba = mamba_like(model);
    EXPECT_LT(relative_difference(transformer, parameters), 0.02) << name;
    EXPECT_LT(relative_difference(mamba, parameters), 0.02) << name;
    EXPECT_TRUE(problems(transformer).empty() && problems(mamba).empty()) << name;
    EXPECT_EQ(std::get<TransformerConfig>(parse_config(to_json(transformer), name).config), transformer);
    EXPECT_EQ(std::get<MambaConfig>(parse_config(to_json(mamba), name).config), mamba);
  }
}

TEST(Presets, ATransformerOfOtherDepthMatchesInParameters) {
  PmnetConfig model = preset("tiny");
  model.num_layers = 1;
  model.layer_types.resize(1);
  const TransformerConfig transformer = transformer_like(model, 2);
  EXPECT_EQ(transformer.num_layers, 2);
  EXPECT_LT(relative_difference(transformer, static_cast<double>(parameter_count(model))), 0.02);
}

TEST(Presets, TheTransformerOfTheSpeedComparison) {
  const TransformerConfig config = transformer_like(preset("119m"));
  EXPECT_EQ(config.hidden_size, 896);
  EXPECT_EQ(config.intermediate_size, 2432);
  EXPECT_EQ(config.num_layers, 12);
  EXPECT_EQ(config.num_heads, 14);
  EXPECT_EQ(config.num_kv_heads, 14);
}

TEST(Presets, UnknownNamesSuggest) {
  EXPECT_FALSE(find_preset("120m").has_value());
  EXPECT_EQ(user_error_of([] { preset("tinny"); }),
            "there is no preset 'tinny' among 119m, 30m, 11m, 5m, 3m, 1.6m, 1m, tiny; did you mean 'tiny'?");
}

}  // namespace
}  // namespace pmnet
