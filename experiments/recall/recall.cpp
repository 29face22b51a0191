#include "experiments/recall/recall.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/format.h"
#include "config/costs.h"
#include "model/model_folder.h"

namespace pmnet {

namespace {

using nlohmann::json;

// Trainings choose their best weights by other questions than those of the test.
uint64_t validation_seed(int64_t seed) { return (uint64_t{1} << 32) + static_cast<uint64_t>(seed); }

}  // namespace

RecallSettings::RecallSettings(Recipe recipe) {
  switch (recipe) {
    case Recipe::kPaper:
      hidden = 256, intermediate = 512, layers = 12, heads = 6, head_dim = 64, memory = 256, read_heads = 4,
      write_period = 3, window = 128;
      batch = 32, steps = 20'000, warmup = 500, eval_every = 500, learning_rate = 5e-4, weight_decay = 0.1, chunk = 512;
      facts = {1, 2, 4, 8, 16}, most_distance = 4096, seeds = 5, streams = 256;
      distances = {64, 256, 1024, 1525, 4096, 16'384, 65'536, 262'144, 1'048'576};
      attention_limit = 65'536, control_limit = 16'384;
      break;
    case Recipe::kCpu:
      hidden = 48, intermediate = 96, heads = 2, head_dim = 16, memory = 48, read_heads = 1, init = 0.08;
      batch = 32, steps = 1200, learning_rate = 3e-3;
      keys = 8, log_distances = true, streams = 32;
      distances = {8, 16, 32, 48, 64, 128, 200, 400, 1000, 4000, 16'000, 65'536, 131'072};
      break;
    case Recipe::kSmoke:
      hidden = 32, intermediate = 48, layers = 2, heads = 2, head_dim = 16, memory = 32, read_heads = 1,
      write_period = 1, window = 8, init = 0.1;
      contenders = {"pmnet", "window"};
      facts = {1}, keys = 1, most_distance = 32;
      distances = {4, 16, 32, 64, 256};
      seeds = 1, streams = 128, batch = 32, steps = 400, warmup = 20, eval_every = 20, learning_rate = 3e-3;
      break;
  }
}

void RecallSettings::visit(const Visitor& visitor) {
  TaskSettings::visit(visitor);
  visitor("contenders", &contenders, "Models to train: pmnet, window, transformer, mamba");
  visitor("facts", &facts, "Numbers of facts, trained and tested");
  visitor("distances", &distances, "Filler bytes between facts and question, tested");
  visitor("least_distance", &least_distance, "Smallest number of filler bytes in training");
  visitor("most_distance", &most_distance, "Largest number of filler bytes in training");
  visitor("log_distances", &log_distances, "Draw distances evenly over factors instead of bytes");
  visitor("keys", &keys, "Different keys");
  visitor("values", &values, "Different values");
  visitor("fillers", &fillers, "Different filler bytes");
  visitor("streams", &streams, "Questions per cell of the grid and seed");
  visitor("validation_streams", &validation_streams, "Questions per evaluation during training");
  visitor("attention_limit", &attention_limit, "Longest test of the Transformer");
  visitor("control_limit", &control_limit, "Longest test of models that cannot know");
  visitor("finish_at", &finish_at, "Accuracy at which a training ends early");
}

std::vector<std::string> RecallSettings::problems() {
  std::vector<std::string> found = TaskSettings::problems();
  const auto within = [&](const std::string& key, int64_t value, int64_t low, int64_t high) {
    require(found, value >= low && value <= high,
            fmt::format("{} is {}; it must be from {} to {}", key, value, low, high));
  };
  within("keys", keys, 1, RecallTask::kMaxKeys);
  within("values", values, 2, RecallTask::kMaxValues);
  within("fillers", fillers, 1, RecallTask::kMaxFillers);
  within("streams", streams, 1, 1 << 20);
  within("validation_streams", validation_streams, 1, 1 << 20);
  within("least_distance", least_distance, 0, most_distance);
  for (const int64_t number : facts) within("facts", number, 1, keys);
  for (const int64_t distance : distances) within("distances", distance, 0, kMaxPosition);
  require(found, !facts.empty() && !distances.empty(), "facts and distances must not be empty");
  require(found, std::is_sorted(distances.begin(), distances.end()), "distances must be ascending");
  require(found, distances.empty() || distances.back() > reach(),
          fmt::format("distances must go beyond the {} bytes that the windows reach", reach()));
  require(found, std::find(contenders.begin(), contenders.end(), "pmnet") != contenders.end(),
          "contenders must hold pmnet");
  for (const std::string& name : contenders) contender_of(name);
  return found;
}

RecallTask RecallSettings::task() const {
  RecallTask task;
  task.bos = pmnet_config().bos_token_id;
  task.keys = keys;
  task.values = values;
  task.fillers = fillers;
  return task;
}

std::string RecallExperiment::train_name(Contender contender, int64_t seed) {
  return fmt::format("train {}, seed {}", contender_name(contender), seed);
}

std::string RecallExperiment::test_name(const RecallCandidate& candidate, int64_t seed) {
  return fmt::format("test {}, seed {}", candidate.name, seed);
}

std::vector<RecallCandidate> RecallExperiment::candidates() const {
  std::vector<RecallCandidate> list;
  for (const std::string& name : settings_.contenders) {
    const Contender contender = contender_of(name);
    const int64_t limit = contender == Contender::kTransformer ? settings_.attention_limit
                          : contender == Contender::kWindow    ? settings_.control_limit
                                                               : settings_.distances.back();
    list.push_back({name, contender_title(contender), contender, {}, limit});
    if (contender != Contender::kPmnet) continue;
    MemorySwitches off;
    off.recurrence = false;
    list.push_back({"pmnet without recurrence", "PMNet, No Recurrence", contender, off, settings_.control_limit});
  }
  return list;
}

std::vector<int64_t> RecallExperiment::distances_of(const RecallCandidate& candidate) const {
  std::vector<int64_t> list;
  for (const int64_t distance : settings_.distances)
    if (distance <= candidate.limit) list.push_back(distance);
  return list;
}

TaskTraining RecallExperiment::training(Contender contender, int64_t seed) const {
  TaskTraining training;
  training.model = settings_.model_config(contender);
  training.config = settings_.train_config(seed);
  const RecallTask task = settings_.task();
  const RecallRange range{settings_.facts, settings_.least_distance, settings_.most_distance, settings_.log_distances};
  training.batch = [=, rows = settings_.batch](int64_t step, int64_t) {
    return make_recall_batch(task, range, static_cast<uint64_t>(seed), step, rows);
  };
  training.evaluate = [=, this](const LanguageModel& model, int64_t) {
    TaskTraining::Evaluation found;
    found.finished = true;
    for (const int64_t facts : settings_.facts) {
      RecallQuestion question;
      question.facts = facts;
      question.distances = {settings_.most_distance / 2, settings_.most_distance};
      question.streams = settings_.validation_streams;
      question.seed = validation_seed(seed);
      const RecallScore score = score_recall(model, {}, task, question);
      const double accuracy = 0.5 * (score.accuracy(0) + score.accuracy(1));
      found.score += accuracy / static_cast<double>(settings_.facts.size());
      found.finished = found.finished && accuracy >= settings_.finish_at;
      found.metrics.emplace_back(fmt::format("eval/accuracy_{}_facts", facts), accuracy);
      found.metrics.emplace_back(fmt::format("eval/loss_{}_facts", facts), score.loss.back());
    }
    return found;
  };
  return training;
}

Part RecallExperiment::train_part(Contender contender, int64_t seed) const {
  Part part;
  part.name = train_name(contender, seed);
  part.timed_as = "train " + contender_name(contender);
  part.cost = training_cost(training(contender, seed));
  part.estimate_seconds = [=, this] {
    return time_task_step(training(contender, seed)) * static_cast<double>(settings_.steps);
  };
  part.run = [=, this](PartContext& context) { return to_json(train_on_task(training(contender, seed), context)); };
  return part;
}

Part RecallExperiment::test_part(const RecallCandidate& candidate, int64_t seed) const {
  const ModelConfig model = settings_.model_config(candidate.contender);
  const std::vector<int64_t> distances = distances_of(candidate);
  const int64_t longest = distances.empty() ? 1 : distances.back() + 1;
  Part part;
  part.name = test_name(candidate, seed);
  part.cost.parameters = parameter_count(model);
  part.cost.bytes = static_cast<double>(settings_.streams * longest * std::ssize(settings_.facts));
  part.cost.flop = part.cost.bytes * 2 * total(multiply_adds_per_token(model, longest));
  part.run = [=, this](PartContext& context) { return test(candidate, seed, context); };
  return part;
}

std::vector<Part> RecallExperiment::parts() {
  std::vector<Part> parts;
  for (int64_t seed = 1; seed <= settings_.seeds; ++seed) {
    for (const std::string& name : settings_.contenders) parts.push_back(train_part(contender_of(name), seed));
    for (const RecallCandidate& candidate : candidates()) parts.push_back(test_part(candidate, seed));
  }
  return parts;
}

json RecallExperiment::test(const RecallCandidate& candidate, int64_t seed, PartContext& context) const {
  const LoadedModel loaded = load_model(context.folder_of(train_name(candidate.contender, seed)) / "model");
  json result = context.partial().value_or(json{{"streams", settings_.streams},
                                                {"distances", distances_of(candidate)},
                                                {"right", json::object()},
                                                {"loss", json::object()}});
  const double share = 1.0 / static_cast<double>(settings_.facts.size());
  for (size_t i = 0; i < settings_.facts.size(); ++i) {
    const std::string name = std::to_string(settings_.facts[i]);
    if (result["right"].contains(name)) continue;
    RecallQuestion question;
    question.facts = settings_.facts[i];
    question.distances = distances_of(candidate);
    question.streams = settings_.streams;
    question.seed = static_cast<uint64_t>(seed);
    const auto between = [&](int64_t position) {
      context.stop().throw_if_requested();
      const double read = static_cast<double>(position) / static_cast<double>(question.distances.back());
      context.progress(share * (static_cast<double>(i) + read),
                       fmt::format("{} fact(s), byte {}", name, format_count(static_cast<uint64_t>(position))));
    };
    const RecallScore score = score_recall(*loaded.model, candidate.switches, settings_.task(), question, between);
    result["right"][name] = score.right;
    result["loss"][name] = score.loss;
    context.save_partial(result);
  }
  return result;
}

std::unique_ptr<Experiment> make_recall_experiment(Recipe recipe) { return std::make_unique<RecallExperiment>(recipe); }

}  // namespace pmnet
