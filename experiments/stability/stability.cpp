#include "experiments/stability/stability.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/costs.h"
#include "model/model_folder.h"

namespace pmnet {

namespace {

using nlohmann::json;

RecallQuestion question_of(const StabilitySettings& settings, int64_t context, uint64_t seed) {
  RecallQuestion question;
  question.distances = {context};
  question.streams = settings.streams;
  question.seed = seed;
  return question;
}

}  // namespace

StabilitySettings::StabilitySettings(Recipe recipe) {
  switch (recipe) {
    case Recipe::kPaper:
      hidden = 256, intermediate = 512, layers = 12, heads = 6, head_dim = 64, memory = 256, read_heads = 4,
      write_period = 3, window = 128;
      batch = 16, steps = 5000, warmup = 500, eval_every = 250, learning_rate = 5e-4, weight_decay = 0.1, chunk = 512;
      contexts = {2048, 4096, 8192, 16'384}, seeds = 5;
      break;
    case Recipe::kCpu:
      hidden = 32, intermediate = 48, layers = 2, heads = 2, head_dim = 16, memory = 32, read_heads = 1,
      write_period = 1, window = 8, init = 0.1;
      batch = 16, steps = 500, warmup = 20, learning_rate = 3e-3;
      contexts = {64, 256, 1024};
      break;
    case Recipe::kSmoke:
      hidden = 24, intermediate = 32, layers = 2, heads = 2, head_dim = 12, memory = 24, read_heads = 1,
      write_period = 1, window = 4, init = 0.1;
      values = 4, fillers = 4, batch = 8, steps = 10, warmup = 2, eval_every = 5, learning_rate = 3e-3;
      contexts = {12, 24}, seeds = 1, streams = 16;
      break;
  }
}

void StabilitySettings::visit(const Visitor& visitor) {
  TaskSettings::visit(visitor);
  visitor("contexts", &contexts, "Largest numbers of filler bytes, trained and tested");
  visitor("values", &values, "Different values");
  visitor("fillers", &fillers, "Different filler bytes");
  visitor("streams", &streams, "Questions per test");
}

std::vector<std::string> StabilitySettings::problems() {
  std::vector<std::string> found = TaskSettings::problems();
  require(found, contexts.size() >= 2 && std::is_sorted(contexts.begin(), contexts.end()),
          "contexts must be two or more, ascending");
  if (!found.empty()) return found;
  require(found, contexts.front() > 0 && contexts.back() <= kMaxPosition,
          fmt::format("contexts must be from 1 to {}", kMaxPosition));
  require(found, contexts.back() > reach(),
          fmt::format("contexts end at {}, within the {} bytes that the windows reach; add a longer one",
                      contexts.back(), reach()));
  require(found, values >= 2 && values <= RecallTask::kMaxValues,
          fmt::format("values is {}; it must be from 2 to {}", values, RecallTask::kMaxValues));
  require(found, fillers >= 1 && fillers <= RecallTask::kMaxFillers,
          fmt::format("fillers is {}; it must be from 1 to {}", fillers, RecallTask::kMaxFillers));
  require(found, streams > 0, fmt::format("streams is {}; it must be above 0", streams));
  return found;
}

RecallTask StabilitySettings::task() const {
  RecallTask task;
  task.bos = pmnet_config().bos_token_id;
  task.keys = 1;
  task.values = values;
  task.fillers = fillers;
  return task;
}

MemorySwitches StabilityExperiment::Variant::switches() const {
  MemorySwitches switches;
  switches.unconstrained = unconstrained;
  switches.normalize_gradient = normalized;
  return switches;
}

const std::vector<StabilityExperiment::Variant>& StabilityExperiment::variants() {
  static const std::vector<Variant> list = {{"phases, normalised", false, true},
                                            {"phases, not normalised", false, false},
                                            {"unconstrained, normalised", true, true},
                                            {"unconstrained, not normalised", true, false}};
  return list;
}

std::string StabilityExperiment::part_name(const Variant& variant, int64_t context, int64_t seed) {
  return fmt::format("train {}, context {}, seed {}", variant.name, context, seed);
}

TaskTraining StabilityExperiment::training(const Variant& variant, int64_t context, int64_t seed) const {
  TaskTraining training;
  training.model = settings_.model_config(Contender::kPmnet);
  training.config = settings_.train_config(seed);
  training.config.unconstrained = variant.unconstrained;
  training.config.normalize_gradient = variant.normalized;
  training.batch = [=, this](int64_t step, int64_t) {
    return make_recall_batch(settings_.task(), {{1}, 0, context, /*log_uniform=*/true}, static_cast<uint64_t>(seed),
                             step, settings_.batch);
  };
  // No early end: the norms of all steps are what is compared.
  training.evaluate = [=, this](const LanguageModel& model, int64_t) {
    const RecallScore score = score_recall(model, variant.switches(), settings_.task(),
                                           question_of(settings_, context, (uint64_t{1} << 32) + seed));
    TaskTraining::Evaluation found;
    found.score = score.accuracy(0);
    found.metrics = {{"eval/accuracy", score.accuracy(0)}, {"eval/loss", score.loss[0]}};
    return found;
  };
  return training;
}

Part StabilityExperiment::part(const Variant& variant, int64_t context, int64_t seed) const {
  Part part;
  part.name = part_name(variant, context, seed);
  part.timed_as = fmt::format("{}, context {}", variant.name, context);
  part.cost = training_cost(training(variant, context, seed));
  part.estimate_seconds = [=, this] {
    return time_task_step(training(variant, context, seed)) * static_cast<double>(settings_.steps);
  };
  part.run = [=, this](PartContext& of_part) { return run(variant, context, seed, of_part); };
  return part;
}

std::vector<Part> StabilityExperiment::parts() {
  std::vector<Part> parts;
  for (int64_t seed = 1; seed <= settings_.seeds; ++seed)
    for (const int64_t context : settings_.contexts)
      for (const Variant& variant : variants()) parts.push_back(part(variant, context, seed));
  return parts;
}

json StabilityExperiment::run(const Variant& variant, int64_t context, int64_t seed, PartContext& of_part) const {
  json result = to_json(train_on_task(training(variant, context, seed), of_part));
  const LoadedModel best = load_model(of_part.folder() / "model");
  const RecallQuestion question = question_of(settings_, context, static_cast<uint64_t>(seed));
  MemorySwitches switches = variant.switches();
  result["accuracy"] = score_recall(*best.model, switches, settings_.task(), question).accuracy(0);
  switches.recurrence = false;
  result["accuracy_without_recurrence"] = score_recall(*best.model, switches, settings_.task(), question).accuracy(0);
  return result;
}

std::unique_ptr<Experiment> make_stability_experiment(Recipe recipe) {
  return std::make_unique<StabilityExperiment>(recipe);
}

}  // namespace pmnet
