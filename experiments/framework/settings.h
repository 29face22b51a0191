// What can be set of an experiment: one table of fields gives recipes, --set, settings.json, --print-settings, ranges
// and the comparison with what is already in a folder.
#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/field_table.h"

namespace pmnet {

class Settings;

// A row of a field table (config/field_table.h) that belongs to the settings which listed it.
struct SettingsField : FieldInfo {
  std::function<FieldValue()> read;
  std::function<void(const FieldValue&)> write;

  FieldValue get(const Settings&) const { return read(); }
  void set(Settings&, const FieldValue& value) const { write(value); }
};

class SettingsTable {
 public:
  template <typename T>
  void add(const std::string& key, T* member, const std::string& help, const Range& range = {}) {
    rows_.push_back({{key, help, range, FieldType<T>::choices(), FieldType<T>::get(T{})},
                     [member] { return FieldType<T>::get(*member); },
                     [member](const FieldValue& value) { FieldType<T>::set(*member, value); }});
  }
  const std::vector<SettingsField>& rows() const { return rows_; }

 private:
  std::vector<SettingsField> rows_;
};

inline constexpr Range kPositive = from_to(1, 1e15);     // of counts and sizes
inline constexpr Range kNotNegative = from_to(0, 1e15);  //
inline constexpr Range kAboveZero = above_to(0, 1e15);   // of rates
inline constexpr Range kShare = from_to(0, 1);

// Each experiment derives a struct from this one and lists its fields. Sizes are in recipes/experiments, not in
// defaults.
//
// Keys that flags of the command set: `seeds` (--seeds), `text` (--text, list of words), `models` (--model, list of
// LABEL=DIR), `reading` (--reading). An experiment without the key refuses the flag.
class Settings {
 public:
  bool verdicts = true;  // false at sizes that are too small to judge a claim

  virtual ~Settings() = default;
  virtual void list_fields(SettingsTable& table);
  // One sentence per problem, naming the key; called after everything is set. Here: values out of range.
  virtual std::vector<std::string> problems();
  // Fields that `preset` fills in; called when that key is set, before the keys that override it.
  virtual void apply_preset() {}

  bool has(const std::string& key);
  // Unknown keys and values of the wrong type are UserErrors, all reported at once.
  void set(std::vector<Assignment> assignments);
  nlohmann::json to_json();
  std::string to_toml();  // a recipe, with the help of each key as a comment

 private:
  std::vector<SettingsField> rows();
};

// One sentence for each key that differs.
std::vector<std::string> setting_differences(const nlohmann::json& saved, const nlohmann::json& now);

// The file of a recipe: `recipe` is a path that ends in .toml, or a size such as "cpu", which names
// recipes/experiments/<experiment>.<size>.toml under PMNET_HOME, the installed data or the source tree. UserError
// naming the sizes there are.
std::filesystem::path find_recipe(const std::string& experiment, const std::string& recipe);
// "cpu" for mqar.cpu.toml; the path of any other file.
std::string recipe_name(const std::filesystem::path& file);

// Adds the sentence unless the condition holds.
void require(std::vector<std::string>& problems, bool condition, const std::string& sentence);
void require_ascending(std::vector<std::string>& problems, const std::string& key, const std::vector<int64_t>& values);

}  // namespace pmnet
