// The table of each model configuration: the keys of config.json with their ranges and meaning. config_json.h reads and
// writes it, problems() checks it, `pmnet info` and the reference pages print it.
#pragma once
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "config/field_table.h"
#include "config/model_config.h"

namespace pmnet {

enum class Presence {
  kRequired,
  kOptional,       // absent or null: the default
  kNullable,       // the same, and the default has no other form than null
  kUnlessDefault,  // optional, and only written when it differs from the default
};

template <typename Config>
struct ModelField : Field<Config> {
  Presence presence;
};

template <typename Config>
const std::vector<ModelField<Config>>& model_fields();
template <>
const std::vector<ModelField<PmnetConfig>>& model_fields();
template <>
const std::vector<ModelField<TransformerConfig>>& model_fields();
template <>
const std::vector<ModelField<MambaConfig>>& model_fields();

// Problems by key, so that a key that could not be read is not judged by its default as well.
class Problems {
 public:
  void add(const std::string& key, std::string sentence) {
    keys_.insert(key);
    sentences_.push_back(std::move(sentence));
  }
  bool none_with(std::initializer_list<const char*> keys) const;
  const std::vector<std::string>& sentences() const { return sentences_; }

 private:
  std::set<std::string> keys_;
  std::vector<std::string> sentences_;
};

// Adds what is wrong with the values; never allocates anything of model size.
void find_problems(const ModelConfig& config, Problems& problems);

}  // namespace pmnet
