#include "config/config_json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/suggest.h"
#include "config/model_fields.h"

namespace pmnet {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxConfigBytes = 16 << 20;
constexpr auto kModelTypes = std::to_array<const char*>({"PMNet", "llama", "mamba"});  // in the order of ModelConfig
constexpr auto kVariantTypes = std::to_array<const char*>({"PMNet-variant", "llama-variant", "mamba-variant"});

// What Hugging Face writes beside the configuration proper and nothing here depends on.
const std::set<std::string> kIgnoredKeys = {
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

// One JSON object, the problems found so far and the keys that were looked for.
class Reader {
 public:
  explicit Reader(const json& object) : object_(object), known_(kIgnoredKeys) {}

  Problems problems;

  const json* find(const std::string& key) {
    known_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  bool has(const std::string& key) {
    const json* value = find(key);
    return value != nullptr && !value->is_null();
  }

  template <typename S>
  void read(const Field<S>& field, Presence presence, S& into) {
    const json* value = find(field.key);
    if (value == nullptr && presence == Presence::kRequired)
      return problems.add(field.key, fmt::format("{} is missing", field.key));
    if (value == nullptr || (value->is_null() && presence != Presence::kRequired)) return;
    try {
      const FieldValue read = field_from_json(field, *value);
      if (presence == Presence::kNullable && read == field.get(S{}))
        fail("{} is {}, expected null or {}", field.key, json_text(*value), to_text(field.range));
      field.set(into, read);
    } catch (const UserError& error) {
      problems.add(field.key, error.what());
    }
  }

  std::vector<std::string> warnings() const {
    std::vector<std::string> sentences;
    const std::vector<std::string> known(known_.begin(), known_.end());
    for (const auto& item : object_.items())
      if (!known_.contains(item.key()))
        sentences.push_back(fmt::format("the key {} is unknown and was ignored{}", printable(item.key()),
                                        did_you_mean(item.key(), known)));
    return sentences;
  }

 private:
  const json& object_;
  std::set<std::string> known_;
};

// Keys that every file has and no configuration keeps.
void check_labels(Reader& reader) {
  const auto is_text = [](const json& name) { return name.is_string(); };
  if (const json* names = reader.find("architectures"); names != nullptr && !names->is_null())
    if (!names->is_array() || !std::all_of(names->begin(), names->end(), is_text))
      reader.problems.add("architectures", "architectures must be null or a list of strings");
  if (const json* dtype = reader.find("dtype"); dtype != nullptr && !dtype->is_null() && !dtype->is_string())
    reader.problems.add("dtype", "dtype must be null or a string");
  const json* activation = reader.find("hidden_act");
  if (activation == nullptr)
    reader.problems.add("hidden_act", "hidden_act is missing");
  else if (*activation != "silu")
    reader.problems.add("hidden_act", fmt::format("hidden_act is {}, expected \"silu\"", json_text(*activation)));
}

void check_rope_scaling(Reader& reader) {
  if (reader.has("rope_scaling"))
    reader.problems.add("rope_scaling", "rope_scaling must be null: no scaling is implemented");
}

// Without layer_types, two keys of Hugging Face say which layers slide.
struct WindowKeys {
  bool use_sliding_window = true;
  int64_t max_window_layers = 0;
};

void finish(Reader& reader, PmnetConfig& config) {
  check_rope_scaling(reader);
  const bool listed = reader.has("layer_types");
  WindowKeys keys;
  const Presence presence = listed ? Presence::kOptional : Presence::kRequired;
  reader.read<WindowKeys>({"use_sliding_window", &WindowKeys::use_sliding_window, ""}, presence, keys);
  const Field<WindowKeys> first_sliding("max_window_layers", &WindowKeys::max_window_layers, "",
                                        from_to(0, kMaxLayers));
  reader.read(first_sliding, presence, keys);
  if (auto problem = first_sliding.problem(keys.max_window_layers))
    reader.problems.add(first_sliding.key, *std::move(problem));
  if (!listed)
    for (int64_t i = 0; i < std::clamp<int64_t>(config.num_layers, 0, kMaxLayers); ++i)
      config.layer_types.push_back(keys.use_sliding_window && i >= keys.max_window_layers ? LayerType::kSliding
                                                                                          : LayerType::kFull);
  const bool slides = std::ranges::count(config.layer_types, LayerType::kSliding) > 0;
  if (slides && !keys.use_sliding_window)
    reader.problems.add("layer_types", "layer_types has sliding layers although use_sliding_window is false");
  if (reader.has("sliding_window")) return;
  if (slides) reader.problems.add("sliding_window", "sliding_window is missing");
  config.sliding_window = 1;  // not used
}

void finish(Reader& reader, TransformerConfig& config) {
  check_rope_scaling(reader);
  if (reader.has("head_dim")) return;
  // Hugging Face leaves head_dim out of older files, where it follows from the other two.
  if (config.num_heads > 0 && config.hidden_size % config.num_heads == 0)
    config.head_dim = config.hidden_size / config.num_heads;
  else
    reader.problems.add("head_dim", "head_dim is missing");
}

struct Expand {
  double factor = 0;
};

void finish(Reader& reader, MambaConfig& config) {
  if (!reader.has("expand")) return;
  Expand expand;
  reader.read<Expand>({"expand", &Expand::factor, ""}, Presence::kOptional, expand);
  if (reader.problems.none_with({"expand", "hidden_size", "intermediate_size"}) &&
      expand.factor * static_cast<double>(config.hidden_size) != static_cast<double>(config.intermediate_size))
    reader.problems.add("expand", fmt::format("intermediate_size is {}, expected expand = {:g} times hidden_size = {}",
                                              config.intermediate_size, expand.factor, config.hidden_size));
}

template <typename Config>
ModelConfig read_model(Reader& reader) {
  Config config;
  for (const ModelField<Config>& field : model_fields<Config>()) reader.read<Config>(field, field.presence, config);
  finish(reader, config);
  return config;
}

ModelConfig read_model(Reader& reader, const std::string& where) {
  const json* type = reader.find("model_type");
  const json name = type == nullptr ? json() : *type;
  const auto is = [&](size_t i) { return name == kModelTypes[i] || name == kVariantTypes[i]; };
  if (is(0)) return read_model<PmnetConfig>(reader);
  if (is(1)) return read_model<TransformerConfig>(reader);
  if (is(2)) return read_model<MambaConfig>(reader);
  fail("{}: model_type is {}, expected \"{}\"", where, type == nullptr ? "missing" : json_text(name),
       fmt::join(kModelTypes, "\" or \""));
}

// Keys that depend on nothing, or on several fields.
json fixed_keys(const PmnetConfig& config) {
  json keys = {{"rope_scaling", nullptr},
               {"use_sliding_window", std::ranges::count(config.layer_types, LayerType::kSliding) > 0},
               {"max_window_layers", 0}};
  if (!config.published_memory())  // unknown to the Python classes: without their names, a loader refuses it
    keys.update({{"architectures", {"PMNetVariantForCausalLM"}}});
  else
    keys.update({{"architectures", {"PMNetForCausalLM"}},
                 {"auto_map",
                  {{"AutoConfig", "configuration_pmnet.PMNetConfig"},
                   {"AutoModel", "modeling_pmnet.PMNetModel"},
                   {"AutoModelForCausalLM", "modeling_pmnet.PMNetForCausalLM"},
                   {"AutoTokenizer", json::array({"tokenization_pmnet.ByteTokenizer", nullptr})}}}});
  return keys;
}

json fixed_keys(const TransformerConfig&) {
  return {{"architectures", {"LlamaForCausalLM"}}, {"rope_scaling", nullptr}};
}

json fixed_keys(const MambaConfig& config) {
  return {{"architectures", {"MambaForCausalLM"}},
          {"expand", config.intermediate_size / config.hidden_size},
          {"time_step_init_scheme", "random"},
          {"residual_in_fp32", true}};
}

template <typename Config>
json keys_of(const Config& config) {
  json keys = fixed_keys(config);
  keys.update({{"dtype", "float32"}, {"hidden_act", "silu"}, {"use_cache", true}, {"model_type", model_type(config)}});
  for (const ModelField<Config>& field : model_fields<Config>()) {
    const FieldValue value = field.get(config);
    const bool is_default = value == field.get(Config{});
    if (field.presence == Presence::kUnlessDefault && is_default) continue;
    keys[field.key] = field.presence == Presence::kNullable && is_default ? json() : field_to_json(value);
  }
  return keys;
}

}  // namespace

ParsedConfig parse_config(const std::string& json_text, const std::string& where) {
  const json root = parse_json(json_text, where);
  if (!root.is_object()) fail("{}: must hold one JSON object with the keys of a model configuration", where);
  Reader reader(root);
  check_labels(reader);
  ModelConfig config = read_model(reader, where);
  find_problems(config, reader.problems);
  if (const auto& found = reader.problems.sentences(); !found.empty())
    fail("{}: {} problem{}: {}", where, found.size(), found.size() == 1 ? "" : "s", fmt::join(found, "; "));
  return {std::move(config), reader.warnings()};
}

ParsedConfig read_config(const std::filesystem::path& file) {
  return parse_config(read_file(file, kMaxConfigBytes), file.string());
}

std::string to_json(const ModelConfig& config) {
  return std::visit([](const auto& model) { return keys_of(model); }, config).dump(2) + "\n";
}

std::string model_type(const ModelConfig& config) {
  return (is_variant(config) ? kVariantTypes : kModelTypes)[config.index()];
}

}  // namespace pmnet
