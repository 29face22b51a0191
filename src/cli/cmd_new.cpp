#include <memory>
#include <string>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/enum_option.h"
#include "cli/outputs.h"
#include "cli/seed_option.h"
#include "config/costs.h"
#include "config/presets.h"
#include "model/model_folder.h"

namespace pmnet {

namespace {

struct NewOptions {
  std::string preset;
  std::string folder;
  Architecture architecture = Architecture::kPmnet;
  uint64_t seed = 0;
  bool force = false;
};

void make_new_model(const NewOptions& options) {
  const ModelConfig config = like(options.architecture, preset(options.preset));
  require_free_folder(options.folder, {.force = options.force, .inputs = {}});
  const auto model = make_model(config);
  model->initialize(options.seed);
  save_model(options.folder, *model, config);
  fmt::print("{}: {} {}, {} parameters, random weights of seed {}\n", options.folder, enum_name(options.architecture),
             options.preset, format_count(parameter_count(config)), options.seed);
}

}  // namespace

void add_new_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("new", "Make a model folder with random weights");
  const auto options = std::make_shared<NewOptions>();
  command->add_option("preset", options->preset, "Name of a preset; 'pmnet info' lists them")
      ->type_name("PRESET")
      ->required();
  command->add_option("folder,--out", options->folder, "Model folder to write")->type_name("DIR")->required();
  require_seed(command->add_option("--seed", options->seed, "Random seed of the weights")->capture_default_str());
  add_enum_option(*command, "--arch", options->architecture, "Architecture; a baseline has as many parameters");
  add_force_option(*command, options->force);
  command->callback([options] { make_new_model(*options); });
}

}  // namespace pmnet
