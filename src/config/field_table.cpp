#include "config/field_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/suggest.h"
#include "config/parse_value.h"

namespace pmnet {
namespace {

using nlohmann::json;

template <typename T>
inline constexpr bool kIsList = requires(const T& value) { typename T::value_type; } && !std::is_same_v<T, std::string>;

// "expected" of an error, for one value or one element of a list.
std::string expected(const bool&) { return "true or false"; }
std::string expected(const int64_t&) { return "an integer"; }
std::string expected(const double&) { return "a number"; }
std::string expected(const std::string&) { return "a string"; }

// Whether a string is the name of an enumerator, or empty where an optional one may be absent.
bool may_be(const FieldInfo& field, const std::string& name) {
  const auto& names = field.choices;
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end() || field.zero == FieldValue(name);
}

template <typename T>
T parse_word(const FieldInfo& field, const std::string& word, const std::string& where) {
  T value{};
  if (!parse_value(word, value)) fail("{}: {} is '{}', expected {}", where, field.key, word, expected(value));
  if constexpr (std::is_same_v<T, std::string>) {
    if (!may_be(field, word)) fail("{}: {} is {}", where, field.key, unknown_name(word, field.choices));
  }
  return value;
}

template <typename T>
bool has_type(const json& value) {
  if constexpr (std::is_same_v<T, bool>) return value.is_boolean();
  if constexpr (std::is_same_v<T, int64_t>)
    return value.is_number_integer() &&
           !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
  if constexpr (std::is_same_v<T, double>) return value.is_number();
  if constexpr (std::is_same_v<T, std::string>) return value.is_string();
}

template <typename T>
T element_from_json(const FieldInfo& field, const json& value) {
  if (!has_type<T>(value)) fail("{} is {}, expected {}", field.key, json_text(value), expected(T{}));
  if constexpr (std::is_same_v<T, std::string>) {
    if (!may_be(field, value.get<std::string>()))
      fail("{} is {}, expected {}", field.key, json_text(value), fmt::join(field.choices, ", "));
  }
  return value.get<T>();
}

template <typename T>
std::string element_toml(const T& value) {
  if constexpr (std::is_same_v<T, std::string>)  // a JSON string is a TOML string
    return json(value).dump(-1, ' ', false, json::error_handler_t::replace);
  else
    return fmt::format("{}", value);
}

}  // namespace

std::string json_text(const json& value) {
  constexpr size_t kLongest = 60;
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

std::string to_text(const Range& range) {
  return fmt::format("{}{} to {}{}", range.without_low ? "above " : "", range.low, range.without_high ? "below " : "",
                     range.high);
}

std::string FieldInfo::help_text() const {
  return choices.empty() ? help : fmt::format("{}: {}", help, fmt::join(choices, ", "));
}

std::string FieldInfo::type_text() const {
  if (!choices.empty()) return fmt::format("{}", fmt::join(choices, ", "));
  constexpr const char* kNames[] = {"true or false",    "integer",         "number",         "string",
                                    "list of integers", "list of numbers", "list of strings"};
  return kNames[zero.index()];
}

std::optional<std::string> FieldInfo::problem(const FieldValue& value) const {
  const auto outside = [&](const auto& number) -> std::optional<std::string> {
    if (range.contains(static_cast<double>(number))) return std::nullopt;
    return fmt::format("{} is {}, expected {}", key, number, to_text(range));
  };
  return std::visit(
      [&]<typename T>(const T& held) -> std::optional<std::string> {
        if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
          if (range.bounded()) return outside(held);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<double>>) {
          for (const auto& element : held)
            if (auto found = range.bounded() ? outside(element) : std::nullopt) return found;
        }
        return std::nullopt;
      },
      value);
}

FieldValue parse_field(const FieldInfo& field, const Assignment& assignment) {
  const auto& [key, words, where] = assignment;
  return std::visit(
      [&]<typename T>(const T&) -> FieldValue {
        if constexpr (kIsList<T>) {
          T list;
          for (const std::string& word : words) list.push_back(parse_word<typename T::value_type>(field, word, where));
          return list;
        } else {
          if (words.size() != 1) fail("{}: {} is a list, expected {}", where, field.key, expected(T{}));
          return parse_word<T>(field, words[0], where);
        }
      },
      field.zero);
}

json field_to_json(const FieldValue& value) {
  return std::visit([](const auto& held) { return json(held); }, value);
}

FieldValue field_from_json(const FieldInfo& field, const json& value) {
  return std::visit(
      [&]<typename T>(const T&) -> FieldValue {
        if constexpr (kIsList<T>) {
          if (!value.is_array()) fail("{} is {}, expected a list", field.key, json_text(value));
          T list;
          for (const json& element : value) list.push_back(element_from_json<typename T::value_type>(field, element));
          return list;
        } else {
          return element_from_json<T>(field, value);
        }
      },
      field.zero);
}

std::string field_to_toml(const FieldValue& value) {
  return std::visit(
      []<typename T>(const T& held) {
        if constexpr (kIsList<T>) {
          std::vector<std::string> elements;
          for (const auto& element : held) elements.push_back(element_toml(element));
          return fmt::format("[{}]", fmt::join(elements, ", "));
        } else {
          return element_toml(held);
        }
      },
      value);
}

std::string flag_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

void fail_unknown_key(const Assignment& assignment, const std::vector<std::string>& known, const std::string& advice) {
  const auto& [key, values, where] = assignment;
  std::string hint = did_you_mean(key, known);
  for (const std::string& name : known)  // the section is missing
    if (hint.empty() && name.ends_with("." + key)) hint = "; did you mean '" + name + "'?";
  fail("{}: unknown key '{}'{}", where, key, hint.empty() ? advice : hint);
}

}  // namespace pmnet
