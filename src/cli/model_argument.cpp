#include "cli/model_argument.h"

#include <fmt/format.h>

#include "base/error.h"
#include "config/presets.h"
#include "train/run_checkpoint.h"

namespace pmnet {

namespace {

void note(const std::string& sentence) { fmt::print(stderr, "note: {}\n", sentence); }

std::filesystem::path model_folder(const std::filesystem::path& folder) {
  const std::filesystem::path checkpoints = folder / "ckpt";
  if (!std::filesystem::is_directory(checkpoints)) return folder;
  const std::optional<RunCheckpoint> newest = newest_checkpoint(checkpoints, note);
  if (!newest) fail("the run in {} has no checkpoint yet; let it train until it saves one", folder.string());
  return newest->folder;
}

}  // namespace

OpenedModel open_model(const std::string& folder) {
  if (!std::filesystem::exists(folder) && find_preset(folder))
    fail("'{}' is a preset, which has no weights; 'pmnet new {} DIR' makes a model folder with random ones", folder,
         folder);
  const std::filesystem::path weights = model_folder(folder);
  LoadedModel loaded = load_model(weights, {.keep_packed = true});
  for (const std::string& warning : loaded.warnings) note(fmt::format("{}: {}", weights.string(), warning));
  OpenedModel opened{.model = std::move(loaded.model), .config = loaded.config, .hash = {}, .folder = weights};
  opened.hash = model_hash(*opened.model);
  return opened;
}

}  // namespace pmnet
