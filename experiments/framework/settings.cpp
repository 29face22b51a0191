#include "experiments/framework/settings.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/shared_data.h"
#include "base/suggest.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kPreset = "preset", *kSuffix = ".toml";

fs::path recipe_folder() {
  if (const auto found = find_shared(fs::path("recipes") / "experiments")) return *found;
  fail("recipes/experiments was not found; set PMNET_HOME to the source folder, or give --recipe FILE.toml");
}

}  // namespace

void Settings::list_fields(SettingsTable& table) {
  table.add("verdicts", &verdicts, "Judge the claims; false at sizes that are too small for it");
}

std::vector<std::string> Settings::problems() { return range_problems(rows(), *this); }

std::vector<SettingsField> Settings::rows() {
  SettingsTable table;
  list_fields(table);
  return table.rows();
}

bool Settings::has(const std::string& key) {
  const std::vector<SettingsField> table = rows();
  return find_field(table, key) != nullptr;
}

void Settings::set(std::vector<Assignment> assignments) {
  const std::vector<SettingsField> table = rows();
  const std::string advice = fmt::format("; this experiment has {}", fmt::join(keys_of(table), ", "));
  const auto others = std::stable_partition(assignments.begin(), assignments.end(),
                                            [](const Assignment& one) { return one.key == kPreset; });
  if (others != assignments.begin()) {
    set_fields(table, *this, {assignments.begin(), others}, advice);
    apply_preset();
  }
  set_fields(table, *this, {others, assignments.end()}, advice);
}

json Settings::to_json() {
  json object = json::object();
  for (const SettingsField& row : rows()) object[row.key] = field_to_json(row.read());
  return object;
}

std::string Settings::to_toml() {
  std::string text;
  for (const SettingsField& row : rows())
    text += fmt::format("{:<44} # {}\n", fmt::format("{} = {}", row.key, field_to_toml(row.read())), row.help_text());
  return text;
}

std::vector<std::string> setting_differences(const json& saved, const json& now) {
  std::vector<std::string> differences;
  const auto shown = [](const json& object, const std::string& key) {
    return object.contains(key) ? object[key].dump(-1, ' ', false, json::error_handler_t::replace) : "absent";
  };
  const auto compare = [&](const std::string& key) {
    if (shown(saved, key) != shown(now, key))
      differences.push_back(fmt::format("{} is {} there and {} here", key, shown(saved, key), shown(now, key)));
  };
  for (const auto& [key, value] : now.items()) compare(key);
  for (const auto& [key, value] : saved.items())
    if (!now.contains(key)) compare(key);
  return differences;
}

fs::path find_recipe(const std::string& experiment, const std::string& recipe) {
  if (recipe.ends_with(kSuffix)) return recipe;
  const fs::path folder = recipe_folder();
  const fs::path file = folder / fmt::format("{}.{}{}", experiment, recipe, kSuffix);
  if (fs::exists(file)) return file;
  std::vector<std::string> sizes;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const fs::path stem = entry.path().stem();
    if (stem.stem() == experiment && stem.has_extension()) sizes.push_back(stem.extension().string().substr(1));
  }
  std::sort(sizes.begin(), sizes.end());
  fail("--recipe: '{}' is neither a size ({}) nor a file that ends in {}{}", recipe, fmt::join(sizes, ", "), kSuffix,
       did_you_mean(recipe, sizes));
}

std::string recipe_name(const fs::path& file) {
  const fs::path size = file.stem().extension();
  return size.empty() ? file.string() : size.string().substr(1);
}

void require(std::vector<std::string>& problems, bool condition, const std::string& sentence) {
  if (!condition) problems.push_back(sentence);
}

void require_ascending(std::vector<std::string>& problems, const std::string& key, const std::vector<int64_t>& values) {
  require(problems, std::is_sorted(values.begin(), values.end()), key + " must be ascending");
}

}  // namespace pmnet
