#include "experiments/framework/settings.h"

#include <fmt/ranges.h>

#include "base/suggest.h"
#include "config/parse_value.h"

namespace pmnet {

namespace {

using nlohmann::json;

std::vector<std::string> keys_of(Settings& settings) {
  std::vector<std::string> keys;
  settings.visit([&](const std::string& key, Settings::Value, const std::string&) { keys.push_back(key); });
  return keys;
}

}  // namespace

bool Settings::has(const std::string& key) {
  const std::vector<std::string> keys = keys_of(*this);
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

void Settings::set(const std::string& key, const std::vector<std::string>& values, const std::string& where) {
  if (!has(key)) {
    const std::string hint = did_you_mean(key, keys_of(*this));
    fail("{}: unknown key '{}'{}", where, key,
         hint.empty() ? fmt::format("; this experiment has {}", fmt::join(keys_of(*this), ", ")) : hint);
  }
  visit([&](const std::string& name, Value value, const std::string&) {
    if (name == key) std::visit([&](auto* field) { assign_value(*field, values, key, where); }, value);
  });
}

json Settings::to_json() {
  json object = json::object();
  visit([&](const std::string& key, Value value, const std::string&) {
    std::visit([&](const auto* field) { object[key] = *field; }, value);
  });
  return object;
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

}  // namespace pmnet
