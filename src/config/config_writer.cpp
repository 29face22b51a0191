#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/config_json.h"

namespace pmnet {
namespace {

using nlohmann::json;

json without_pad(const auto& config) { return config.pad_token_id < 0 ? json(nullptr) : json(config.pad_token_id); }

// The keys all three share.
json common_keys(const auto& config, const char* type, const char* architecture) {
  return {{"architectures", {architecture}},
          {"model_type", type},
          {"dtype", "float32"},
          {"hidden_act", "silu"},
          {"use_cache", true},
          {"vocab_size", config.vocab_size},
          {"hidden_size", config.hidden_size},
          {"intermediate_size", config.intermediate_size},
          {"num_hidden_layers", config.num_layers},
          {"initializer_range", config.initializer_range},
          {"tie_word_embeddings", config.tie_word_embeddings},
          {"bos_token_id", config.bos_token_id},
          {"eos_token_id", config.eos_token_id},
          {"pad_token_id", without_pad(config)}};
}

void add_attention_keys(json& keys, const auto& config) {
  keys["num_attention_heads"] = config.num_heads;
  keys["num_key_value_heads"] = config.num_kv_heads;
  keys["head_dim"] = config.head_dim;
  keys["rope_theta"] = config.rope_theta;
  keys["rope_scaling"] = nullptr;
  keys["rms_norm_eps"] = config.rms_norm_eps;
  keys["attention_dropout"] = config.attention_dropout;
  keys["attention_bias"] = config.attention_bias;
  keys["max_position_embeddings"] = config.max_position_embeddings;
}

json keys_of(const PmnetConfig& config) {
  json keys = common_keys(config, "PMNet", "PMNetForCausalLM");
  add_attention_keys(keys, config);
  keys["memory_size"] = config.memory_size;
  keys["num_memory"] = config.num_memory;
  keys["num_memory_read_heads"] = config.num_read_heads;
  keys["memory_write_period"] = config.write_period;
  keys["memory_cumsum"] = config.memory_cumsum;
  if (!config.memory_modules) keys["pmnet_memory_modules"] = false;
  const auto& types = config.layer_types;
  keys["use_sliding_window"] = std::count(types.begin(), types.end(), LayerType::kSliding) > 0;
  keys["sliding_window"] = config.sliding_window;
  keys["max_window_layers"] = 0;
  keys["layer_types"] = json::array();
  for (const LayerType type : types)
    keys["layer_types"].push_back(type == LayerType::kSliding ? kSlidingName : kFullName);
  keys["auto_map"] = {{"AutoConfig", "configuration_pmnet.PMNetConfig"},
                      {"AutoModel", "modeling_pmnet.PMNetModel"},
                      {"AutoModelForCausalLM", "modeling_pmnet.PMNetForCausalLM"},
                      {"AutoTokenizer", json::array({"tokenization_pmnet.ByteTokenizer", nullptr})}};
  return keys;
}

json keys_of(const TransformerConfig& config) {
  json keys = common_keys(config, "llama", "LlamaForCausalLM");
  add_attention_keys(keys, config);
  keys["mlp_bias"] = config.mlp_bias;
  return keys;
}

json keys_of(const MambaConfig& config) {
  json keys = common_keys(config, "mamba", "MambaForCausalLM");
  keys["expand"] = config.intermediate_size / config.hidden_size;
  keys["state_size"] = config.state_size;
  keys["conv_kernel"] = config.conv_kernel;
  keys["time_step_rank"] = config.time_step_rank;
  keys["time_step_min"] = config.time_step_min;
  keys["time_step_max"] = config.time_step_max;
  keys["time_step_floor"] = config.time_step_floor;
  keys["time_step_scale"] = config.time_step_scale;
  keys["time_step_init_scheme"] = "random";
  keys["layer_norm_epsilon"] = config.layer_norm_epsilon;
  keys["use_bias"] = config.use_bias;
  keys["use_conv_bias"] = config.use_conv_bias;
  keys["rescale_prenorm_residual"] = config.rescale_prenorm_residual;
  keys["residual_in_fp32"] = true;
  return keys;
}

}  // namespace

std::string to_json(const ModelConfig& config) {
  return std::visit([](const auto& model) { return keys_of(model); }, config).dump(2) + "\n";
}

std::string model_type(const ModelConfig& config) {
  constexpr const char* kNames[] = {"PMNet", "llama", "mamba"};
  return kNames[config.index()];
}

}  // namespace pmnet
