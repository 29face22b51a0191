#include "experiments/framework/candidates.h"

#include <fmt/format.h>

#include "base/error.h"
#include "config/config_json.h"
#include "experiments/compare/compare.h"

namespace pmnet {

namespace fs = std::filesystem;

std::vector<GivenModel> given_models(const std::vector<std::string>& models, Recipe recipe) {
  std::vector<GivenModel> given;
  for (const std::string& text : models) {
    const NamedModel named = parse_named_model(text);
    for (const GivenModel& other : given)
      if (other.label == named.label) fail("two models are called '{}'; give them different labels", named.label);
    const ModelConfig config = read_config(weights_folder(named.folder) / "config.json").config;
    given.push_back({named.label, config, named.folder, ""});
  }
  if (!given.empty()) return given;
  const CompareSettings compare(recipe);
  for (const char* training : {"pmnet", "transformer", "mamba"})
    given.push_back({contender_title(contender_of(training)), compare.config_of(training), "", training});
  return given;
}

OpenedModel open_given(const GivenModel& model, const PartContext& context) {
  if (!model.folder.empty()) return open_model(model.folder);
  const fs::path experiment = context.folder().parent_path().parent_path();
  const fs::path compare = experiment.parent_path() / "compare";
  const fs::path part = compare / "parts" / folder_name(CompareSettings::train_part(model.training, 1));
  if (!fs::exists(part / "result.json"))
    fail(
        "there is no trained {} in {}; give models with --model LABEL=DIR, or train them first: pmnet experiment "
        "compare --out {}",
        model.label, compare.string(), compare.string());
  return open_model((part / "model").string());
}

}  // namespace pmnet
