// Run files: TOML -> the option table. The only file that sees toml++.
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "config/option_value.h"
#include "config/train_options.h"

namespace pmnet {
namespace {

constexpr uint64_t kMaxRunFileBytes = 1 << 20;

std::string scalar_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<int64_t>()) return std::to_string(*number);
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  if (const auto truth = node.value_exact<bool>()) return *truth ? "true" : "false";
  fail("expected text, a number, true, false or a list of those");
}

std::vector<std::string> texts_of(const toml::node& node) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return {scalar_text(node)};
  std::vector<std::string> texts;
  for (const toml::node& element : *array) texts.push_back(scalar_text(element));
  return texts;
}

void read_table(TrainConfig& config, const toml::table& table, const std::string& prefix, const std::string& where,
                std::vector<std::string>& problems) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    const std::string place = fmt::format("{}, line {}", where, node.source().begin.line);
    try {
      if (const toml::table* inner = node.as_table())
        read_table(config, *inner, name + ".", where, problems);
      else
        set_option(config, name, texts_of(node), place);
    } catch (const UserError& error) {
      problems.emplace_back(error.what());
    }
  }
}

toml::table parse(const std::string& text, const std::string& where) {
  try {
    return toml::parse(std::string_view(text), std::string_view(where));
  } catch (const toml::parse_error& error) {
    fail("{}, line {}, column {}: {}", where, error.source().begin.line, error.source().begin.column,
         error.description());
  }
}

}  // namespace

void read_run_text(TrainConfig& config, const std::string& toml_text, const std::string& where) {
  std::vector<std::string> problems;
  read_table(config, parse(toml_text, where), "", where, problems);
  if (!problems.empty()) fail("{}", fmt::join(problems, "; "));
}

void read_run_file(TrainConfig& config, const std::filesystem::path& file) {
  read_run_text(config, read_file(file, kMaxRunFileBytes), file.string());
}

Assignment parse_assignment(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    fail("--set '{}' is not an assignment; expected key=value, or key=[value, value] for a list", text);
  const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
  const bool is_toml = value.starts_with('[') || value.starts_with('"') || value.starts_with('\'');
  return {key, is_toml ? texts_of(*parse("value = " + value, "--set " + key).get("value")) : std::vector{value}};
}

void set_option(TrainConfig& config, const std::string& assignment) {
  const auto [key, values] = parse_assignment(assignment);
  set_option(config, key, values, "--set");
}

}  // namespace pmnet
