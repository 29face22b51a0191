#include "experiments/framework/candidates.h"

#include <fmt/format.h>

#include "base/error.h"
#include "config/config_json.h"
#include "experiments/compare/compare.h"

namespace pmnet {

namespace fs = std::filesystem;

const char* title_of(CandidateKind kind) {
  constexpr const char* kTitles[] = {"PMNet", "Window only", "Transformer", "Mamba"};
  return kTitles[static_cast<size_t>(kind)];
}

CandidateSpec without_recurrence(const CandidateSpec& candidate, int64_t limit) {
  CandidateSpec off = candidate;
  off.name += " without recurrence";
  off.title += ", No Recurrence";
  off.tested.recurrence = false;
  off.limit = limit;
  return off;
}

namespace {

CompareSettings read_compare_recipe(const std::string& recipe) {
  CompareSettings compare;
  compare.set(read_toml(find_recipe("compare", recipe)));
  return compare;
}

}  // namespace

std::vector<CandidateSpec> ReadingSettings::given_candidates() const {
  std::vector<CandidateSpec> given;
  for (const std::string& text : models) {
    const NamedModel named = parse_named_model(text);
    for (const CandidateSpec& other : given)
      if (other.name == named.label) fail("two models are called '{}'; give them different labels", named.label);
    CandidateSpec& candidate = given.emplace_back();
    candidate.name = candidate.title = candidate.training = named.label;
    candidate.config = read_config(weights_folder(named.folder) / "config.json").config;
    candidate.folder = named.folder;
  }
  if (!given.empty()) return given;
  for (const CandidateSpec& candidate : read_compare_recipe(compare_recipe).candidates())
    if (candidate.trains() && candidate.trained.recurrence != false) given.push_back(candidate);
  return given;
}

int64_t ReadingSettings::seeds() const { return models.empty() ? read_compare_recipe(compare_recipe).seeds : 1; }

void ReadingSettings::list_fields(SettingsTable& table) {
  Settings::list_fields(table);
  table.add("models", &models, "LABEL=DIR of trained models; none: those of the comparison beside this experiment");
  table.add("compare_recipe", &compare_recipe, "Recipe of that comparison: a size, or a file that ends in .toml");
  books.list_fields(table, "text");
}

OpenedModel open_candidate(const CandidateSpec& candidate, int64_t seed, const PartContext& context) {
  if (!candidate.folder.empty()) return open_model(candidate.folder.string());
  const fs::path compare = context.experiment_folder().parent_path() / "compare";
  const fs::path part = compare / "parts" / folder_name(CompareSettings::train_part(candidate.training, seed));
  if (!fs::exists(part / "result.json"))
    fail(
        "{}: there is no trained {} of seed {}; give models with --model LABEL=DIR, or train them first: pmnet "
        "experiment compare --out {}",
        compare.string(), candidate.title, seed, compare.string());
  return open_model((part / "model").string());
}

}  // namespace pmnet
