#include "train/open_model.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/standard_streams.h"
#include "config/presets.h"
#include "train/run_checkpoint.h"

namespace pmnet {

namespace {

void note(const std::string& sentence) { print_error("note: {}", sentence); }

}  // namespace

std::filesystem::path weights_folder(const std::string& folder) {
  if (!std::filesystem::exists(folder) && find_preset(folder))
    fail("'{}' is a preset, which has no weights; 'pmnet new {} DIR' makes a model folder with random ones", folder,
         folder);
  const std::filesystem::path checkpoints = std::filesystem::path(folder) / "ckpt";
  if (!std::filesystem::is_directory(checkpoints)) return folder;
  const std::optional<RunCheckpoint> newest = newest_checkpoint(checkpoints, note);
  if (!newest) fail("the run in {} has no checkpoint yet; let it train until it saves one", folder);
  return newest->folder;
}

OpenedModel open_model(const std::string& folder) {
  const std::filesystem::path weights = weights_folder(folder);
  const auto opened = std::make_shared<const ModelFolder>(
      weights, [=](const std::string& warning) { note(fmt::format("{}: {}", weights.string(), warning)); });
  const EngineWeights of_folder(opened);
  return {.weights = of_folder, .engine = make_engine(of_folder), .config = opened->config(), .folder = weights};
}

bool has_memory(const ModelConfig& config) {
  const auto* pmnet = std::get_if<PmnetConfig>(&config);
  return pmnet != nullptr && pmnet->memory_modules;
}

NamedModel parse_named_model(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals != std::string::npos && equals > 0 && !std::filesystem::exists(text))
    return {text.substr(0, equals), text.substr(equals + 1)};
  const std::filesystem::path folder = std::filesystem::path(text + "/").lexically_normal().parent_path();
  return {folder.filename().string(), text};
}

}  // namespace pmnet
