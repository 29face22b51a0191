#include "config/reference.h"

#include <cmath>

#include "base/format.h"
#include "config/costs.h"
#include "config/model_fields.h"
#include "config/presets.h"
#include "config/train_options.h"

namespace pmnet {
namespace {

std::string range_text(const FieldInfo& field) { return field.range.bounded() ? to_text(field.range) : ""; }

std::string code(const std::string& text) { return text.empty() || text == "\"\"" ? "" : "`" + text + "`"; }

template <typename Config>
std::string default_text(const ModelField<Config>& field) {
  if (field.presence == Presence::kRequired) return "required";
  if (field.presence == Presence::kNullable) return "`null`";
  if (field.key == "layer_types") return "from `use_sliding_window` and `max_window_layers`";
  if (field.key == "head_dim") return "`hidden_size / num_attention_heads`";
  if (field.key == "sliding_window") return "required if a layer slides";
  return code(field_to_toml(field.get(Config{})));
}

template <typename Config>
std::string model_table(const char* title) {
  std::string text =
      fmt::format("\n## {}\n\n| key | type | default | range | meaning |\n|---|---|---|---|---|\n", title);
  for (const ModelField<Config>& field : model_fields<Config>())
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", field.key, field.type_text(), default_text(field),
                        range_text(field), field.help);
  return text;
}

std::string config_page() {
  return "# Model configuration\n\n"
         "The keys of `config.json`, under the names of the published checkpoints. `hidden_act` must be `silu` and\n"
         "`rope_scaling` null. Unknown keys are ignored with a warning; a missing required key, a value of another "
         "type\n"
         "or out of range is an error. `memory_keys`, `memory_values`, `memory_tree`,\n"
         "`max_ngram` and `ngram_rows` are ours, not the paper's: a file with other values than the defaults has a\n"
         "`model_type` that ends in \"-variant\", so that no other program takes it for a model it knows.\n" +
         model_table<PmnetConfig>("PMNet (`model_type` \"PMNet\" or \"PMNet-variant\")") +
         model_table<TransformerConfig>("Transformer (`model_type` \"llama\" or \"llama-variant\")") +
         model_table<MambaConfig>("Mamba (`model_type` \"mamba\" or \"mamba-variant\")");
}

std::string train_page() {
  std::string text =
      "# Training keys\n\n"
      "The keys of a run file (`--run FILE`) and of `--set KEY=VALUE`. Numbers may end in k, M or G. A resumed run "
      "must\n"
      "keep the keys marked *fixed*. `pmnet train --print-config` prints them as a run file.\n";
  std::string section;
  const TrainConfig defaults;
  for (const TrainOption& option : train_options()) {
    if (const std::string now = option.key.substr(0, option.key.find('.')); now != section) {
      section = now;
      text += fmt::format(
          "\n## {}\n\n| key | flag | type | default | range | meaning | |\n|---|---|---|---|---|---|---|\n", section);
    }
    text +=
        fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", option.key, code(option.flag), option.type_text(),
                    code(value_text(defaults, option)), range_text(option), option.help, option.fixed ? "*fixed*" : "");
  }
  return text;
}

std::string preset_page() {
  std::string text =
      "# Presets\n\n"
      "Named sizes of PMNet, as `pmnet info PRESET` describes them. `119m` and `30m` are the paper's; the others are\n"
      "scaled down for CPUs. The baselines of `--arch transformer` and `--arch mamba` match a preset's number of\n"
      "parameters within 2%. State and multiply-adds are those after 4,096 bytes.\n\n"
      "| preset | parameters | layers L | width d | MLP width f | heads A × d_h | slots N × phases M | read heads R "
      "| layers per level P | groups | window w | dropout | state, bytes | multiply-adds per byte |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  constexpr int64_t kContext = 4096;
  for (const std::string& name : preset_names()) {
    const PmnetConfig c = preset(name);
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} × {} | {} × {} | {} | {} | {} | {} | {} | {} | {} |\n", name,
                        format_count(parameter_count(c)), c.num_layers, c.hidden_size, c.intermediate_size, c.num_heads,
                        c.head_dim, c.num_memory, c.memory_size, c.num_read_heads, c.write_period, c.total_groups(),
                        c.sliding_window, c.attention_dropout,
                        format_count(std::llround(total(streaming_state_bytes(c, kContext)))),
                        format_count(std::llround(total(multiply_adds_per_token(c, kContext)))));
  }
  return text;
}

}  // namespace

std::string reference_page(ReferencePage page) {
  switch (page) {
    case ReferencePage::kConfig:
      return config_page();
    case ReferencePage::kPresets:
      return preset_page();
    case ReferencePage::kTrainingKeys:
      return train_page();
  }
  return "";
}

}  // namespace pmnet
