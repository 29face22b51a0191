#include "config/config_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "config/presets.h"
#include "support/errors.h"

namespace pmnet {
namespace {

using nlohmann::json;

std::string error_of(const json& config) {
  return user_error_of([&] { parse_config(config.dump(), "config.json"); });
}

json published_119m() { return json::parse(to_json(preset("119m"))); }

TEST(ConfigJson, FixturesParseAndRoundTrip) {
  for (const char* name : {"base", "grouped_query", "llama", "mamba", "token_by_token", "uneven_depth",
                           "untied_full_attention_mix", "write_every_layer"}) {
    const ParsedConfig parsed = read_config(std::string(PMNET_FIXTURES) + "/" + name + "/config.json");
    EXPECT_TRUE(parsed.warnings.empty()) << name << ": " << parsed.warnings.front();
    const ParsedConfig again = parse_config(to_json(parsed.config), name);
    EXPECT_EQ(again.config, parsed.config) << name;
    EXPECT_TRUE(again.warnings.empty()) << name;
  }
}

TEST(ConfigJson, FixtureValuesArriveInTheirFields) {
  const auto mix =
      std::get<PmnetConfig>(read_config(std::string(PMNET_FIXTURES) + "/untied_full_attention_mix/config.json").config);
  EXPECT_EQ(mix.layer_types,
            (std::vector{LayerType::kFull, LayerType::kSliding, LayerType::kSliding, LayerType::kFull}));
  EXPECT_FALSE(mix.tie_word_embeddings);
  EXPECT_TRUE(mix.has_full_attention());
  EXPECT_EQ(mix.pad_token_id, -1);
  const auto llama =
      std::get<TransformerConfig>(read_config(std::string(PMNET_FIXTURES) + "/llama/config.json").config);
  EXPECT_EQ(llama.num_kv_heads, 2);
  EXPECT_EQ(llama.pad_token_id, 0);
  const auto mamba = std::get<MambaConfig>(read_config(std::string(PMNET_FIXTURES) + "/mamba/config.json").config);
  EXPECT_EQ(mamba.time_step_rank, 3);
  EXPECT_EQ(mamba.intermediate_size, 96);
}

TEST(ConfigJson, WrittenKeysAreThoseOfTheAuthorsFile) {
  const json written = published_119m();
  EXPECT_EQ(written["architectures"], json::array({"PMNetForCausalLM"}));
  EXPECT_EQ(written["model_type"], "PMNet");
  EXPECT_EQ(written["dtype"], "float32");
  EXPECT_EQ(written["attention_dropout"], 0.1);
  EXPECT_EQ(written["layer_types"], json(std::vector<std::string>(12, "sliding_attention")));
  EXPECT_EQ(written["auto_map"]["AutoTokenizer"], json::array({"tokenization_pmnet.ByteTokenizer", nullptr}));
  EXPECT_EQ(written["auto_map"]["AutoModelForCausalLM"], "modeling_pmnet.PMNetForCausalLM");
  for (const char* key : {"attention_bias",
                          "bos_token_id",
                          "eos_token_id",
                          "head_dim",
                          "hidden_act",
                          "hidden_size",
                          "initializer_range",
                          "intermediate_size",
                          "max_position_embeddings",
                          "max_window_layers",
                          "memory_cumsum",
                          "memory_size",
                          "memory_write_period",
                          "num_attention_heads",
                          "num_hidden_layers",
                          "num_key_value_heads",
                          "num_memory",
                          "num_memory_read_heads",
                          "rms_norm_eps",
                          "rope_scaling",
                          "rope_theta",
                          "sliding_window",
                          "tie_word_embeddings",
                          "use_cache",
                          "use_sliding_window",
                          "vocab_size"}) {
    EXPECT_TRUE(written.contains(key)) << key;
  }
  for (const char* key : {"pmnet_memory_modules", "memory_embedding_std", "residual_init", "memory_keys", "memory_tree",
                          "max_ngram", "ngram_rows"})  // not published: unless default
    EXPECT_FALSE(written.contains(key)) << key;
}

TEST(ConfigJson, KeysThatAreNotPublishedRoundTrip) {
  PmnetConfig config = preset("tiny");
  config.memory_modules = false;
  config.memory_embedding_std = 0.5;
  config.residual_init = 0;
  config.bos_token_id = 256;
  config.eos_token_id = 257;
  config.pad_token_id = 258;
  EXPECT_EQ(std::get<PmnetConfig>(parse_config(to_json(config), "x").config), config);
}

TEST(ConfigJson, VariantsAreMarkedForTheAuthorsLoader) {
  PmnetConfig config = preset("tiny");
  EXPECT_EQ(json::parse(to_json(config))["model_type"], "PMNet");
  for (const MemoryKeys keys : {MemoryKeys::kAnchor, MemoryKeys::kBoth}) {
    config.memory_keys = keys;
    const json written = json::parse(to_json(config));
    EXPECT_EQ(written["model_type"], "PMNet-variant");
    EXPECT_EQ(written["architectures"], json({"PMNetVariantForCausalLM"}));
    EXPECT_FALSE(written.contains("auto_map"));
    EXPECT_EQ(std::get<PmnetConfig>(parse_config(to_json(config), "x").config), config);
  }
}

TEST(ConfigJson, NgramsMakeAVariantOfAnyArchitecture) {
  PmnetConfig config = preset("tiny");
  config.max_ngram = 3;
  config.ngram_rows = 64;
  const std::pair<ModelConfig, const char*> cases[] = {
      {config, "PMNet-variant"}, {transformer_like(config), "llama-variant"}, {mamba_like(config), "mamba-variant"}};
  for (const auto& [model, type] : cases) {
    const json written = json::parse(to_json(model));
    EXPECT_EQ(written["model_type"], type);
    EXPECT_EQ(written["max_ngram"], 3);
    EXPECT_EQ(written["ngram_rows"], 64);
    EXPECT_EQ(parse_config(to_json(model), "x").config, model);
  }
  // The classes that an exported model brings along know them.
  EXPECT_TRUE(json::parse(to_json(config)).contains("auto_map"));
  config.ngram_rows = 96;
  EXPECT_NE(problems(config).at(0).find("ngram_rows is 96, expected a power of two"), std::string::npos);
}

TEST(ConfigJson, AChainIsAVariantOfOneGroupPerLevel) {
  PmnetConfig config = preset("tiny");
  EXPECT_GT(config.num_groups(1), 1);
  config.memory_tree = false;
  EXPECT_EQ(config.total_groups(), config.num_levels());
  const json written = json::parse(to_json(config));
  EXPECT_EQ(written["model_type"], "PMNet-variant");
  EXPECT_EQ(written["memory_tree"], false);
  EXPECT_EQ(std::get<PmnetConfig>(parse_config(to_json(config), "x").config), config);
}

TEST(ConfigJson, LayerTypesFollowFromTheWindowKeysWhenAbsent) {
  json config = json::parse(to_json(preset("tiny")));
  config.erase("layer_types");
  config["max_window_layers"] = 1;
  const auto some = std::get<PmnetConfig>(parse_config(config.dump(), "x").config);
  EXPECT_EQ(some.layer_types,
            (std::vector{LayerType::kFull, LayerType::kSliding, LayerType::kSliding, LayerType::kSliding}));
  config["use_sliding_window"] = false;
  config["sliding_window"] = nullptr;
  const auto none = std::get<PmnetConfig>(parse_config(config.dump(), "x").config);
  EXPECT_EQ(none.layer_types, std::vector(4, LayerType::kFull));
  config["sliding_window"] = 32;
  config.erase("use_sliding_window");
  config.erase("max_window_layers");
  EXPECT_EQ(error_of(config), "config.json: 2 problems: use_sliding_window is missing; max_window_layers is missing");
}

// Values that are wrong for nearly every field, and the few fields each of them is right for.
const std::vector<std::pair<json, std::set<std::string>>>& bad_values() {
  static const std::vector<std::pair<json, std::set<std::string>>> values = {
      {0, {"bos_token_id", "eos_token_id", "pad_token_id", "attention_dropout", "max_window_layers"}},
      {-1, {}},
      {int64_t{1} << 31, {"rope_theta"}},
      {1e300, {}},
      {"12", {"dtype", "torch_dtype"}},
      {nullptr,
       {"pad_token_id", "dtype", "architectures", "rope_scaling", "layer_types", "use_sliding_window",
        "max_window_layers", "max_position_embeddings", "attention_dropout of llama", "attention_bias of llama",
        "mlp_bias of llama", "head_dim of llama", "tie_word_embeddings of mamba", "expand of mamba"}},
      {json::array({1.5}), {}},
      {UINT64_MAX, {}},
      {json::object({{"a", 1}}), {}},
  };
  return values;
}

void try_bad_values(const json& good, const std::set<std::string>& ignored) {
  const std::string type = good["model_type"] == "PMNet" ? "" : " of " + good["model_type"].get<std::string>();
  int tried = 0;
  for (const auto& item : good.items()) {
    const std::string& key = item.key();
    if (ignored.contains(key)) continue;
    for (const auto& [value, right_for] : bad_values()) {
      if (right_for.contains(key) || right_for.contains(key + type)) continue;
      json bad = good;
      bad[key] = value;
      EXPECT_NE(error_of(bad).find(key), std::string::npos) << key << " = " << value << ": " << error_of(bad);
      ++tried;
    }
  }
  EXPECT_GT(tried, 150);
}

const std::set<std::string> kIgnoredKeys = {"auto_map", "use_cache", "time_step_init_scheme", "residual_in_fp32"};

TEST(ConfigJson, EveryFieldRefusesBadValues) {
  try_bad_values(published_119m(), kIgnoredKeys);
  try_bad_values(json::parse(to_json(transformer_like(preset("30m")))), kIgnoredKeys);
  try_bad_values(json::parse(to_json(mamba_like(preset("30m")))), kIgnoredKeys);
}

TEST(ConfigJson, AMissingSizeOrSwitchIsAnError) {
  const std::set<std::string> optional = {"architectures",
                                          "dtype",
                                          "auto_map",
                                          "use_cache",
                                          "pad_token_id",
                                          "rope_scaling",
                                          "max_position_embeddings",
                                          "layer_types",
                                          "use_sliding_window",
                                          "max_window_layers"};
  int missing = 0;
  const json good = published_119m();
  for (const auto& item : good.items()) {
    if (optional.contains(item.key())) continue;
    json bad = good;
    bad.erase(item.key());
    EXPECT_NE(error_of(bad).find(item.key()), std::string::npos) << item.key();
    ++missing;
  }
  EXPECT_EQ(missing, 23);
}

TEST(ConfigJson, ReportsEveryProblemAtOnce) {
  json bad = published_119m();
  bad["hidden_size"] = 0;
  bad["head_dim"] = 63;
  bad["num_key_value_heads"] = 5;
  bad["hidden_act"] = "gelu";
  bad["rope_scaling"] = {{"type", "linear"}};
  bad.erase("memory_cumsum");
  EXPECT_EQ(
      error_of(bad),
      "config.json: 6 problems: hidden_act is \"gelu\", expected \"silu\"; memory_cumsum is missing; rope_scaling "
      "must be null: no scaling is implemented; hidden_size is 0, expected 1 to 16777216; num_attention_heads is 12, "
      "expected a multiple of num_key_value_heads = 5; head_dim is 63, expected an even number");
}

TEST(ConfigJson, RefusesTheWrongKindOfFile) {
  EXPECT_NE(user_error_of([] { parse_config("[]", "x"); }).find("one JSON object"), std::string::npos);
  EXPECT_NE(user_error_of([] { parse_config("{\"hidden_act\":\"silu\"}", "x"); }).find("model_type"),
            std::string::npos);
  EXPECT_NE(error_of({{"model_type", "gpt2"}, {"hidden_act", "silu"}}).find("model_type is \"gpt2\""),
            std::string::npos);
  std::string text = to_json(preset("tiny"));
  EXPECT_NE(user_error_of([&] { parse_config("\xEF\xBB\xBF" + text, "x"); }).find("byte order mark"),
            std::string::npos);
  text.insert(1, "\"vocab_size\": 384,");
  EXPECT_NE(user_error_of([&] { parse_config(text, "x"); }).find("occurs twice"), std::string::npos);
}

TEST(ConfigJson, UnknownKeysAreWarnings) {
  json config = published_119m();
  config["transformers_version"] = "4.57.6";
  config["torch_dtype"] = "bfloat16";
  config["num_memorys"] = 3;
  const auto warnings = parse_config(config.dump(), "x").warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("num_memorys"), std::string::npos);
  EXPECT_NE(warnings[0].find("did you mean 'num_memory'"), std::string::npos) << warnings[0];
}

// A key that could not be read is reported once, and is not judged by its default as well.
TEST(ConfigJson, AKeyIsReportedOnce) {
  json bad = published_119m();
  bad["num_attention_heads"] = "twelve";
  bad["num_memory"] = nullptr;
  EXPECT_EQ(error_of(bad),
            "config.json: 2 problems: num_attention_heads is \"twelve\", expected an integer; num_memory is null, "
            "expected an integer");
}

TEST(ConfigJson, LayerTypesMustFitTogether) {
  json config = published_119m();
  config["use_sliding_window"] = false;
  EXPECT_NE(error_of(config).find("although use_sliding_window is false"), std::string::npos);
  config = published_119m();
  config["layer_types"].push_back("full_attention");
  EXPECT_NE(error_of(config).find("layer_types has 13 entries, expected num_hidden_layers = 12"), std::string::npos);
  config["layer_types"][0] = "chunked_attention";
  EXPECT_NE(error_of(config).find("chunked_attention"), std::string::npos);
}

}  // namespace
}  // namespace pmnet
