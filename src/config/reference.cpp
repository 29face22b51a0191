#include "config/reference.h"

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
  return "# Model configuration\n\nThe keys of `config.json`. Unknown keys are ignored with a warning; a missing "
         "required "
         "key, a value of another type or out of range is an error.\n" +
         model_table<PmnetConfig>("PMNet (`model_type` \"PMNet\")") +
         model_table<TransformerConfig>("Transformer (`model_type` \"llama\")") +
         model_table<MambaConfig>("Mamba (`model_type` \"mamba\")");
}

std::string train_page() {
  std::string text =
                  "# Training options\n\nThe keys of a run file (`--run FILE`) and of `--set KEY=VALUE`. Numbers may "
                  "end in k, M or "
                  "G. A resumed run must keep the options marked *fixed*.\n",
              section;
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
      "# Presets\n\n119m and 30m are the sizes of the paper.\n\n| preset | parameters | layers L | width d | MLP width "
      "f | "
      "heads | phases M | slots N | read heads R | layers per level P | window w | dropout |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const std::string& name : preset_names()) {
    const PmnetConfig c = preset(name);
    text +=
        fmt::format("| `{}` | {} | {} | {} | {} | {} x {} | {} | {} | {} | {} | {} | {} |\n", name, parameter_count(c),
                    c.num_layers, c.hidden_size, c.intermediate_size, c.num_heads, c.head_dim, c.memory_size,
                    c.num_memory, c.num_read_heads, c.write_period, c.sliding_window, c.attention_dropout);
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
