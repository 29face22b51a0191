// The one table of training options: it gives the keys of run files, --set, the flags, --help, the echo of a run's
// settings and the file that is saved with the run.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "config/train_config.h"

namespace pmnet {

struct TrainOption {
  const char* key;   // "section.name"
  const char* flag;  // "--name"; empty: only through a run file or --set
  const char* help;
  using Field =
      std::variant<bool TrainConfig::*, int64_t TrainConfig::*, double TrainConfig::*, std::string TrainConfig::*,
                   std::vector<std::string> TrainConfig::*, std::vector<double> TrainConfig::*>;
  Field field;
  bool fixed;  // a run that is resumed must keep it

  bool is_switch() const { return std::holds_alternative<bool TrainConfig::*>(field); }
  bool is_list() const {
    return std::holds_alternative<std::vector<std::string> TrainConfig::*>(field) ||
           std::holds_alternative<std::vector<double> TrainConfig::*>(field);
  }
};

std::span<const TrainOption> train_options();

// Unknown keys and values of the wrong kind are UserErrors; `where` opens the sentence. Numbers may end in k, M or G.
void set_option(TrainConfig& config, const std::string& key, const std::vector<std::string>& values,
                const std::string& where);
// "key=value"; the value is one word, or a TOML array for a list.
void set_option(TrainConfig& config, const std::string& assignment);
// TOML; only the keys it holds are changed. Every problem of the file is told at once.
void read_run_file(TrainConfig& config, const std::filesystem::path& file);
void read_run_text(TrainConfig& config, const std::string& toml_text, const std::string& where);

// The value as TOML.
std::string value_text(const TrainConfig& config, const TrainOption& option);
std::string to_toml(const TrainConfig& config, bool with_help);
// "key = value" for everything that is not the default.
std::vector<std::string> chosen_options(const TrainConfig& config);
// One sentence for each fixed option that differs.
std::vector<std::string> fixed_differences(const TrainConfig& saved, const TrainConfig& now);

}  // namespace pmnet
