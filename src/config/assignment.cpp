#include "config/assignment.h"

#include <fmt/format.h>
// Run files with keys such as [:x] break an assertion of toml++ before it reports them; without it they are reported.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>  // included here only

#include "base/error.h"
#include "base/file.h"

namespace pmnet {
namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;

std::string scalar_text(const toml::node& node, const std::string& where) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<int64_t>()) return std::to_string(*number);
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  if (const auto truth = node.value_exact<bool>()) return *truth ? "true" : "false";
  fail("{}: expected a string, a number, true, false or a list of those", where);
}

std::vector<std::string> texts_of(const toml::node& node, const std::string& where) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return {scalar_text(node, where)};
  std::vector<std::string> texts;
  for (const toml::node& element : *array) texts.push_back(scalar_text(element, where));
  return texts;
}

void flatten(const toml::table& table, const std::string& prefix, const std::string& where,
             std::vector<Assignment>& into) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    const std::string place = fmt::format("{}, line {}", where, node.source().begin.line);
    if (const toml::table* inner = node.as_table())
      flatten(*inner, name + ".", where, into);
    else
      into.push_back({name, texts_of(node, place), place});
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

Assignment parse_assignment(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    fail("--set '{}' is not an assignment; expected key=value, or key=[value, value] for a list", text);
  const std::string key = text.substr(0, equals), value = text.substr(equals + 1), where = "--set " + key;
  const bool is_toml = value.starts_with('[') || value.starts_with('"') || value.starts_with('\'');
  if (!is_toml) return {key, {value}, "--set"};
  return {key, texts_of(*parse("value = " + value, where).get("value"), where), "--set"};
}

std::vector<Assignment> parse_toml(const std::string& text, const std::string& where) {
  std::vector<Assignment> assignments;
  flatten(parse(text, where), "", where, assignments);
  return assignments;
}

std::vector<Assignment> read_toml(const std::filesystem::path& file) {
  return parse_toml(read_file(file, kMaxFileBytes), file.string());
}

}  // namespace pmnet
