// The table of training options: keys of run files, --set, flags, --help, ranges, the echo of a run's settings and the
// file that is saved with the run.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "config/field_table.h"
#include "config/train_config.h"

namespace pmnet {

struct TrainOption : Field<TrainConfig> {
  // The rest makes the field; its key is "section.name".
  template <typename... Row>
  TrainOption(std::string flag_name, bool is_fixed, Row&&... row)
      : Field<TrainConfig>(std::forward<Row>(row)...), flag(std::move(flag_name)), fixed(is_fixed) {}

  std::string flag;  // "--name"; empty: only through a run file or --set
  bool fixed;        // a run that is resumed must keep it
};

const std::vector<TrainOption>& train_options();

// Unknown keys and values of another type are UserErrors.
void set_option(TrainConfig& config, const Assignment& assignment);
// TOML; only the keys it holds are changed. One error reports every problem of the file.
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
