#include "cli/model_argument.h"

#include <filesystem>

#include "base/error.h"
#include "base/shared_data.h"
#include "base/standard_streams.h"
#include "config/presets.h"
#include "train/open_model.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;

constexpr const char* kShippedModel = "models/books-10m";

std::string shipped_model() {
  const std::optional<fs::path> found = find_shipped_model();
  if (!found)
    fail("no model is named, and {} does not come with this installation; name a model folder", kShippedModel);
  print_error("note: no model is named; using the one that ships with pmnet, {}", found->string());
  return found->string();
}

// A folder with weights or checkpoints, or what a person means as one: a preset is refused later with a hint.
bool names_model(const std::string& argument) {
  const fs::path folder = parse_named_model(argument).folder;
  std::error_code error;
  return fs::exists(folder / "config.json", error) || fs::exists(folder / "ckpt", error) || find_preset(argument);
}

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

std::optional<fs::path> find_shipped_model() { return find_shared(kShippedModel); }

void default_model(std::string& model, std::vector<std::string>& texts) {
  const bool is_text = exists(model) || model.find_first_of("*?[") != std::string::npos;
  if (!model.empty() && !names_model(model) && is_text) {
    texts.insert(texts.begin(), model);
    model.clear();
  }
  if (texts.empty()) fail("no text is given; name files, folders or globs to read");
  if (model.empty()) model = shipped_model();
}

void default_model(std::string& model, std::optional<std::string>& other) {
  const bool looks_like_path = model.find('/') != std::string::npos && model.find(' ') == std::string::npos;
  if (!model.empty() && !other && !names_model(model) && !fs::is_directory(model) &&
      (exists(model) || !looks_like_path)) {
    other = model;
    model.clear();
  }
  if (model.empty()) model = shipped_model();
}

}  // namespace pmnet
