#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/suggest.h"
#include "config/config_json.h"

namespace pmnet {
namespace {

using nlohmann::json;

constexpr uint64_t kLargestConfig = 16 << 20;

// What Hugging Face writes beside the configuration proper and nothing here depends on.
const std::vector<std::string> kHarmlessKeys = {
    "_attn_implementation_autoset",
    "_name_or_path",
    "auto_map",
    "model_type",
    "pad_vocab_size_multiple",
    "pretraining_tp",
    "residual_in_fp32",
    "time_step_init_scheme",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    "use_mambapy",
};

void read_activation(JsonFields& fields) {
  std::string activation = "silu";
  fields.read("hidden_act", activation);
  if (activation != "silu") fields.problem(fmt::format("hidden_act must be \"silu\", not {}", printable(activation)));
}

void refuse_rope_scaling(JsonFields& fields) {
  const json* scaling = fields.find("rope_scaling");
  if (scaling != nullptr && !scaling->is_null()) fields.problem("rope_scaling must be null: no scaling is implemented");
}

void check_labels(JsonFields& fields) {
  if (const json* names = fields.find("architectures"); names != nullptr && !names->is_null()) {
    const auto is_text = [](const json& name) { return name.is_string(); };
    if (!names->is_array() || !std::all_of(names->begin(), names->end(), is_text)) {
      fields.problem("architectures must be null or a list of strings");
    }
  }
  if (const json* dtype = fields.find("dtype"); dtype != nullptr && !dtype->is_null() && !dtype->is_string()) {
    fields.problem("dtype must be null or a string");
  }
}

template <typename Config>
void read_token_ids(JsonFields& fields, Config& config) {
  fields.read("vocab_size", config.vocab_size);
  fields.read("bos_token_id", config.bos_token_id);
  fields.read("eos_token_id", config.eos_token_id);
  fields.read_optional("pad_token_id", config.pad_token_id);
  if (fields.has("pad_token_id") && config.pad_token_id < 0) {
    fields.problem(fmt::format("pad_token_id must be null or an id from 0, not {}", config.pad_token_id));
    config.pad_token_id = -1;
  }
}

void read_layer_types(JsonFields& fields, PmnetConfig& config) {
  bool use_sliding_window = true;
  int64_t max_window_layers = 0;
  const json* types = fields.find("layer_types");
  const bool listed = types != nullptr && !types->is_null();
  if (listed) {
    fields.read_optional("use_sliding_window", use_sliding_window);
    fields.read_optional("max_window_layers", max_window_layers);
    if (!types->is_array()) return fields.problem("layer_types must be a list of strings");
    for (const json& type : *types) {
      if (type != kSlidingName && type != kFullName) {
        return fields.problem(fmt::format("layer_types may hold \"{}\" and \"{}\", not {}", kSlidingName, kFullName,
                                          printable(type.is_string() ? type.get<std::string>() : type.dump())));
      }
      config.layer_types.push_back(type == kSlidingName ? LayerType::kSliding : LayerType::kFull);
    }
  } else {
    fields.read("use_sliding_window", use_sliding_window);
    fields.read("max_window_layers", max_window_layers);
    const int64_t layers = std::clamp<int64_t>(config.num_layers, 0, kMaxLayers);
    for (int64_t i = 0; i < layers; ++i) {
      const bool slides = use_sliding_window && i >= max_window_layers;
      config.layer_types.push_back(slides ? LayerType::kSliding : LayerType::kFull);
    }
  }
  if (max_window_layers < 0 || max_window_layers > kMaxLayers) {
    fields.problem(fmt::format("max_window_layers must be between 0 and {}, not {}", kMaxLayers, max_window_layers));
  }
  const bool any_slides = std::count(config.layer_types.begin(), config.layer_types.end(), LayerType::kSliding) > 0;
  if (any_slides && !use_sliding_window) {
    fields.problem("layer_types has sliding layers although use_sliding_window is false");
  }
  if (any_slides || fields.has("sliding_window")) {
    fields.read("sliding_window", config.sliding_window);
  } else {
    fields.know({"sliding_window"});
    config.sliding_window = 1;  // no layer asks for it
  }
}

PmnetConfig read_pmnet(JsonFields& fields) {
  PmnetConfig config;
  read_token_ids(fields, config);
  fields.read("hidden_size", config.hidden_size);
  fields.read("intermediate_size", config.intermediate_size);
  fields.read("num_hidden_layers", config.num_layers);
  fields.read("num_attention_heads", config.num_heads);
  fields.read("num_key_value_heads", config.num_kv_heads);
  fields.read("head_dim", config.head_dim);
  fields.read("memory_size", config.memory_size);
  fields.read("num_memory", config.num_memory);
  fields.read("num_memory_read_heads", config.num_read_heads);
  fields.read("memory_write_period", config.write_period);
  fields.read("rope_theta", config.rope_theta);
  fields.read("rms_norm_eps", config.rms_norm_eps);
  fields.read("initializer_range", config.initializer_range);
  fields.read("attention_dropout", config.attention_dropout);
  fields.read("attention_bias", config.attention_bias);
  fields.read("tie_word_embeddings", config.tie_word_embeddings);
  fields.read("memory_cumsum", config.memory_cumsum);
  fields.read_optional("pmnet_memory_modules", config.memory_modules);
  fields.read_optional("max_position_embeddings", config.max_position_embeddings);
  read_layer_types(fields, config);
  refuse_rope_scaling(fields);
  return config;
}

TransformerConfig read_llama(JsonFields& fields) {
  TransformerConfig config;
  read_token_ids(fields, config);
  fields.read("hidden_size", config.hidden_size);
  fields.read("intermediate_size", config.intermediate_size);
  fields.read("num_hidden_layers", config.num_layers);
  fields.read("num_attention_heads", config.num_heads);
  fields.read("num_key_value_heads", config.num_kv_heads);
  // Hugging Face leaves head_dim out of older files, where it follows from the other two.
  if (config.num_heads > 0 && config.hidden_size % config.num_heads == 0) {
    config.head_dim = config.hidden_size / config.num_heads;
    fields.read_optional("head_dim", config.head_dim);
  } else {
    fields.read("head_dim", config.head_dim);
  }
  fields.read("rope_theta", config.rope_theta);
  fields.read("rms_norm_eps", config.rms_norm_eps);
  fields.read("initializer_range", config.initializer_range);
  fields.read_optional("attention_dropout", config.attention_dropout);
  fields.read_optional("attention_bias", config.attention_bias);
  fields.read_optional("mlp_bias", config.mlp_bias);
  fields.read("tie_word_embeddings", config.tie_word_embeddings);
  fields.read_optional("max_position_embeddings", config.max_position_embeddings);
  refuse_rope_scaling(fields);
  return config;
}

MambaConfig read_mamba(JsonFields& fields) {
  MambaConfig config;
  read_token_ids(fields, config);
  fields.read("hidden_size", config.hidden_size);
  fields.read("intermediate_size", config.intermediate_size);
  fields.read("num_hidden_layers", config.num_layers);
  fields.read("state_size", config.state_size);
  fields.read("conv_kernel", config.conv_kernel);
  fields.read("time_step_rank", config.time_step_rank);
  fields.read("layer_norm_epsilon", config.layer_norm_epsilon);
  fields.read("initializer_range", config.initializer_range);
  fields.read("time_step_min", config.time_step_min);
  fields.read("time_step_max", config.time_step_max);
  fields.read("time_step_floor", config.time_step_floor);
  fields.read("time_step_scale", config.time_step_scale);
  fields.read("use_bias", config.use_bias);
  fields.read("use_conv_bias", config.use_conv_bias);
  fields.read("rescale_prenorm_residual", config.rescale_prenorm_residual);
  // Hugging Face leaves it out of saved Mamba files, where true is its default.
  fields.read_optional("tie_word_embeddings", config.tie_word_embeddings);
  if (fields.has("expand")) {
    double expand = 0;
    fields.read("expand", expand);
    if (expand * static_cast<double>(config.hidden_size) != static_cast<double>(config.intermediate_size)) {
      fields.problem(fmt::format("intermediate_size = {} must be expand = {:g} times hidden_size = {}",
                                 config.intermediate_size, expand, config.hidden_size));
    }
  } else {
    fields.know({"expand"});
  }
  return config;
}

// The key a problem is about is its first word: a field that could not be read is not judged by its stand-in value.
std::string key_of(const std::string& problem) { return problem.substr(0, problem.find(' ')); }

void add_problems_of_values(std::vector<std::string>& found, const ModelConfig& config) {
  std::set<std::string> already;
  for (const std::string& problem : found) already.insert(key_of(problem));
  for (const std::string& problem : problems(config)) {
    if (!already.contains(key_of(problem))) found.push_back(problem);
  }
}

std::vector<std::string> warnings_of(const JsonFields& fields) {
  std::vector<std::string> warnings;
  const std::vector<std::string> known(fields.known().begin(), fields.known().end());
  for (const std::string& key : fields.unknown()) {
    warnings.push_back(
        fmt::format("the key {} is not known and was ignored{}", printable(key), did_you_mean(key, known)));
  }
  return warnings;
}

}  // namespace

ParsedConfig parse_config(const std::string& json_text, const std::string& where) {
  const json root = parse_json(json_text, where);
  if (!root.is_object()) fail("{}: must hold one JSON object with the keys of a model configuration.", where);
  std::vector<std::string> problems;
  JsonFields fields(root, problems);
  fields.know(kHarmlessKeys);
  check_labels(fields);
  read_activation(fields);

  const auto type = root.find("model_type");
  ModelConfig config;
  if (type != root.end() && *type == "PMNet") {
    config = read_pmnet(fields);
  } else if (type != root.end() && *type == "llama") {
    config = read_llama(fields);
  } else if (type != root.end() && *type == "mamba") {
    config = read_mamba(fields);
  } else {
    fail("{}: model_type must be \"PMNet\", \"llama\" or \"mamba\", not {}.", where,
         type == root.end()  ? "missing"
         : type->is_string() ? printable(type->get<std::string>())
                             : "another type");
  }
  add_problems_of_values(problems, config);
  if (!problems.empty()) {
    fail("{}: {} problem{}: {}.", where, problems.size(), problems.size() == 1 ? "" : "s", fmt::join(problems, "; "));
  }
  return {std::move(config), warnings_of(fields)};
}

ParsedConfig read_config(const std::filesystem::path& file) {
  return parse_config(read_file(file, kLargestConfig), file.string());
}

}  // namespace pmnet
