// Tables of fields. A row binds a key to a member of a struct, with its range and a one-line description; readers,
// writers, checks, options, `pmnet info` and the reference pages walk the rows, so that each key is written down once.
#pragma once
#include <fmt/ranges.h>

#include <concepts>
#include <functional>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <ranges>
#include <string>
#include <variant>
#include <vector>

#include "base/enum_names.h"
#include "config/assignment.h"

namespace pmnet {

// The value of a field. An enum is its name, an optional enum without a value the empty string.
using FieldValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                                std::vector<std::string>>;

// Bounds of a number or of each number of a list. NaN is outside of every range.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool without_low = false, without_high = false;  // the bound itself is excluded

  bool bounded() const { return high < std::numeric_limits<double>::infinity(); }
  bool contains(double value) const {
    return (without_low ? value > low : value >= low) && (without_high ? value < high : value <= high);
  }
};
constexpr Range from_to(double low, double high) { return {low, high}; }
constexpr Range above_to(double low, double high) { return {low, high, true, false}; }
constexpr Range from_below(double low, double high) { return {low, high, false, true}; }
std::string to_text(const Range& range);  // "1 to 1024", "above 0 to 1", "0 to below 1"

// A row without its member.
struct FieldInfo {
  std::string key;
  std::string help;
  Range range;
  std::vector<std::string> choices;  // names of an enum
  FieldValue zero;                   // some value of the field's type

  bool is_switch() const { return std::holds_alternative<bool>(zero); }
  bool is_list() const { return zero.index() >= FieldValue(std::vector<int64_t>()).index(); }
  std::string help_text() const;  // with the choices: "Device to train on: cpu, cuda"
  std::string type_text() const;  // "integer", "list of numbers", "cpu, cuda"
  // nullopt when the value is in range; else "train.batch is 0, expected 1 to 1048576".
  std::optional<std::string> problem(const FieldValue& value) const;
};

template <typename T>
struct FieldType {
  static FieldValue get(const T& member) { return member; }
  static void set(T& member, const FieldValue& value) { member = std::get<T>(value); }
  static std::vector<std::string> choices() { return {}; }
};
template <NamedEnum E>
struct FieldType<E> {
  static FieldValue get(const E& member) { return enum_name(member); }
  static void set(E& member, const FieldValue& value) { member = *find_enum<E>(std::get<std::string>(value)); }
  static std::vector<std::string> choices() { return enum_names<E>(); }
};
template <NamedEnum E>
struct FieldType<std::optional<E>> {
  static FieldValue get(const std::optional<E>& member) { return member ? enum_name(*member) : ""; }
  static void set(std::optional<E>& member, const FieldValue& value) {
    member = find_enum<E>(std::get<std::string>(value));
  }
  static std::vector<std::string> choices() { return enum_names<E>(); }
};
template <NamedEnum E>
struct FieldType<std::vector<E>> {
  static FieldValue get(const std::vector<E>& member) {
    std::vector<std::string> names;
    for (const E element : member) names.push_back(enum_name(element));
    return names;
  }
  static void set(std::vector<E>& member, const FieldValue& value) {
    member.clear();
    for (const std::string& name : std::get<std::vector<std::string>>(value)) member.push_back(*find_enum<E>(name));
  }
  static std::vector<std::string> choices() { return enum_names<E>(); }
};

// A row: {"train.batch", &TrainConfig::batch, "Samples per step", from_to(1, 1024)}. The member may be inherited.
template <typename S>
struct Field : FieldInfo {
  template <typename T, typename Base>
    requires std::derived_from<S, Base>
  Field(std::string key, T Base::* member, std::string help, Range range = {})
      : FieldInfo{std::move(key), std::move(help), range, FieldType<T>::choices(), FieldType<T>::get(T{})},
        get([member](const S& s) { return FieldType<T>::get(s.*member); }),
        set([member](S& s, const FieldValue& value) { FieldType<T>::set(s.*member, value); }) {}

  // The row of a member's member: {"data.", &TrainConfig::read, {"split_on", &ReadOptions::split_on, "Separator"}}.
  template <typename Inner, typename Base>
    requires std::derived_from<S, Base>
  Field(const std::string& prefix, Inner Base::* outer, const Field<Inner>& inner)
      : FieldInfo{prefix + inner.key, inner.help, inner.range, inner.choices, inner.zero},
        get([outer, inner](const S& s) { return inner.get(s.*outer); }),
        set([outer, inner](S& s, const FieldValue& value) { inner.set(s.*outer, value); }) {}

  std::function<FieldValue(const S&)> get;
  std::function<void(S&, const FieldValue&)> set;
};

// Words of a command line or of a file -> the value of a field. Numbers may end in k, M or G. A UserError begins with
// the place of the assignment.
FieldValue parse_field(const FieldInfo& field, const Assignment& assignment);

nlohmann::json field_to_json(const FieldValue& value);
std::string json_text(const nlohmann::json& value);  // shortened, for messages
// Throws UserError "hidden_size is "x", expected an integer" for another type or an unknown name.
FieldValue field_from_json(const FieldInfo& field, const nlohmann::json& value);
std::string field_to_toml(const FieldValue& value);

// "text_field" -> "--text-field"
std::string flag_of(std::string key);

// "unknown key 'x'" with the nearest known key; without one, `advice` ends the sentence.
[[noreturn]] void fail_unknown_key(const Assignment& assignment, const std::vector<std::string>& known,
                                   const std::string& advice);

// Any range of rows; a row may be derived from Field<S>.
template <std::ranges::range Rows>
std::vector<std::string> keys_of(const Rows& rows) {
  std::vector<std::string> keys;
  for (const auto& row : rows) keys.push_back(row.key);
  return keys;
}

template <std::ranges::range Rows>
const auto* find_field(const Rows& rows, const std::string& key) {
  for (const auto& row : rows)
    if (row.key == key) return &row;
  return static_cast<decltype(&*std::ranges::begin(rows))>(nullptr);
}

template <std::ranges::range Rows, typename S>
void set_field(const Rows& rows, S& settings, const Assignment& assignment, const std::string& advice = "") {
  const auto* row = find_field(rows, assignment.key);
  if (row == nullptr) fail_unknown_key(assignment, keys_of(rows), advice);
  row->set(settings, parse_field(*row, assignment));
}

// One error reports every problem.
template <std::ranges::range Rows, typename S>
void set_fields(const Rows& rows, S& settings, const std::vector<Assignment>& assignments,
                const std::string& advice = "") {
  std::vector<std::string> problems;
  for (const Assignment& assignment : assignments) {
    try {
      set_field(rows, settings, assignment, advice);
    } catch (const UserError& error) {
      problems.emplace_back(error.what());
    }
  }
  if (!problems.empty()) fail("{}", fmt::join(problems, "; "));
}

// One sentence for each value out of range.
template <std::ranges::range Rows, typename S>
std::vector<std::string> range_problems(const Rows& rows, const S& settings) {
  std::vector<std::string> problems;
  for (const auto& row : rows)
    if (auto problem = row.problem(row.get(settings))) problems.push_back(*std::move(problem));
  return problems;
}

}  // namespace pmnet
