#include "cli/input_options.h"

#include "base/error.h"

namespace pmnet {

namespace {

// "\n" typed in a shell is two characters.
std::string unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const char code = i + 1 < text.size() ? text[++i] : '\0';
    const size_t place = std::string_view("ntr0\\").find(code);
    if (code == '\0' || place == std::string_view::npos)
      fail("--split-on '{}' has an unknown escape; expected \\n, \\t, \\r, \\0 or \\\\", text);
    out += std::string_view("\n\t\r\0\\", 5)[place];
  }
  return out;
}

}  // namespace

void add_input_options(CLI::App& command, InputOptions& options) {
  command
      .add_option("inputs", options.inputs, "Files, folders and globs: .txt, .jsonl, .parquet, any bytes; .gz, .zst")
      ->type_name("PATH")
      ->required();
  command.add_option("--text-field", options.read.text_field, "JSONL field or Parquet column that holds the text")
      ->capture_default_str()
      ->type_name("NAME");
  command.add_option("--prompt-field", options.read.prompt_field, "JSONL field that is read but not trained on")
      ->capture_default_str()
      ->type_name("NAME");
  command.add_option("--completion-field", options.read.completion_field, "JSONL field that follows the prompt")
      ->capture_default_str()
      ->type_name("NAME");
  command.add_option("--split-on", options.split_on, "Cut plain files into documents at this text; \\n is a line end")
      ->type_name("TEXT");
  command.add_flag("--skip-bad", options.read.skip_bad_records, "Skip malformed records instead of stopping");
}

void finish_input_options(InputOptions& options) { options.read.split_on = unescape(options.split_on); }

}  // namespace pmnet
