#include <memory>
#include <string>

#include "base/error.h"
#include "base/standard_streams.h"
#include "cli/commands.h"
#include "cli/outputs.h"
#include "train/run_checkpoint.h"

namespace pmnet {

namespace {

struct ExportOptions {
  std::string from, folder;
  bool best = false, force = false;
};

RunCheckpoint find_checkpoint(const ExportOptions& options) {
  const std::filesystem::path from = options.from, checkpoints = from / "ckpt";
  if (!std::filesystem::is_directory(from))
    fail("{} is not a folder; name a run's folder or one of its checkpoints", options.from);
  if (!std::filesystem::is_directory(checkpoints)) return open_run_checkpoint(from);
  auto newest =
      newest_checkpoint(checkpoints, [](const std::string& sentence) { print_error("warning: {}", sentence); });
  if (!newest) fail("{} has no checkpoint yet", options.from);
  if (!options.best) return *newest;
  if (newest->record.best_step < 0)
    fail("{} has no best checkpoint: nothing was held out for validation", options.from);
  return open_run_checkpoint(checkpoint_folder(checkpoints, newest->record.best_step));
}

void export_model(const ExportOptions& options) {
  const RunCheckpoint checkpoint = find_checkpoint(options);
  require_free_folder(options.folder, {.force = options.force, .inputs = {options.from, checkpoint.folder}});
  LoadedModel loaded = load_model(checkpoint.folder);
  save_model(options.folder, *loaded.model, loaded.config);
  fmt::print("{}: the model of step {}\n", options.folder, checkpoint.step);
}

}  // namespace

void add_export_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "Take a model folder from a checkpoint of a run");
  const auto options = std::make_shared<ExportOptions>();
  command->add_option("from", options->from, "Folder of a run (its newest checkpoint), or of one checkpoint")
      ->type_name("RUN|CKPT")
      ->required();
  command->add_option("folder,--out", options->folder, "Model folder to write")->type_name("DIR")->required();
  command->add_flag("--best", options->best, "Of a run: the checkpoint with the best validation");
  add_force_option(*command, options->force);
  command->callback([options] { export_model(*options); });
}

}  // namespace pmnet
