// What an experiment can be told.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

namespace pmnet {

// Each experiment has a struct of its own, derived from this one, which lists its fields once in visit(). From that
// list come --set, settings.json and the comparison with what is already in a folder.
//
// Keys that flags of the command set: `seeds` (--seeds), `text` (--text, list of words), `models` (--model, list of
// LABEL=DIR), `reading` (--reading). An experiment without the key refuses the flag.
class Settings {
 public:
  using Value = std::variant<bool*, int64_t*, double*, std::string*, std::vector<int64_t>*, std::vector<std::string>*>;
  using Visitor = std::function<void(const std::string& key, Value value, const std::string& help)>;

  virtual ~Settings() = default;
  virtual void visit(const Visitor& visitor) = 0;
  // One sentence per problem, naming the key; asked once everything is set.
  virtual std::vector<std::string> problems() { return {}; }

  bool has(const std::string& key);
  // Unknown keys and values of the wrong kind are UserErrors; `where` opens the sentence. Numbers may end in k, M or G.
  void set(const std::string& key, const std::vector<std::string>& values, const std::string& where);
  nlohmann::json to_json();
};

// One sentence for each key that differs.
std::vector<std::string> setting_differences(const nlohmann::json& saved, const nlohmann::json& now);

}  // namespace pmnet
