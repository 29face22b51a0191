#include "cli/input_options.h"

#include "base/error.h"

namespace pmnet {

std::string unescape(const std::string& text, const std::string& flag) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const char code = i + 1 < text.size() ? text[++i] : '\0';
    const size_t place = std::string_view("ntr0\\").find(code);
    if (code == '\0' || place == std::string_view::npos)
      fail("{} '{}' has an unknown escape; expected \\n, \\t, \\r, \\0 or \\\\", flag, text);
    out += std::string_view("\n\t\r\0\\", 5)[place];
  }
  return out;
}

CLI::Option* add_input_options(CLI::App& command, InputOptions& options) {
  CLI::Option* inputs = command
                            .add_option("inputs", options.inputs,
                                        "Files, folders and globs: .txt, .jsonl, .parquet, any bytes; .gz, .zst")
                            ->type_name("PATH")
                            ->required();
  for (const Field<ReadOptions>& field : read_option_fields()) {
    const std::string flag = flag_of(field.key);
    if (field.is_switch()) {
      command.add_flag_callback(flag, [&] { field.set(options.read, true); }, field.help);
      continue;
    }
    const auto assign = [&field, &options, flag](const std::string& text) {
      field.set(options.read, field.key == "split_on" ? unescape(text, flag) : text);
    };
    command.add_option_function<std::string>(flag, assign, field.help)
        ->type_name("TEXT")
        ->default_str(std::get<std::string>(field.get(options.read)));
  }
  return inputs;
}

}  // namespace pmnet
