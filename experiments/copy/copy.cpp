#include "experiments/copy/copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/costs.h"
#include "model/model_folder.h"

namespace pmnet {

namespace {

using nlohmann::json;

constexpr Contender kContenders[] = {Contender::kPmnet, Contender::kWindow};
constexpr const char *kPaper = "paper", *kStrict = "strict", *kBoth = "both";

uint64_t validation_seed(int64_t seed) { return (uint64_t{1} << 32) + static_cast<uint64_t>(seed); }

}  // namespace

CopySettings::CopySettings(Recipe recipe) {
  switch (recipe) {
    case Recipe::kPaper:
      hidden = 256, intermediate = 512, layers = 12, heads = 6, head_dim = 64, memory = 256, read_heads = 4,
      write_period = 3, window = 128;
      batch = 32, steps = 30'000, warmup = 500, eval_every = 500, learning_rate = 5e-4, weight_decay = 0.1, chunk = 512;
      curriculum = false;
      break;
    case Recipe::kCpu:
      // The paper's tree (four levels of four slots) and its ratios of N to the reach, over windows of three bytes.
      hidden = 48, intermediate = 96, layers = 4, heads = 2, head_dim = 24, memory = 64, write_period = 1, window = 3,
      init = 0.1;
      least = 1, symbols = 4, batch = 32, steps = 5000, learning_rate = 3e-3, curriculum_growth = 1.1;
      strict_most = 1.25, strict_longest = 1.5;
      break;
    case Recipe::kSmoke:
      hidden = 24, intermediate = 32, layers = 2, heads = 2, head_dim = 12, memory = 24, read_heads = 1,
      write_period = 1, window = 4, init = 0.1;
      least = 1, symbols = 4, batch = 8, steps = 20, eval_every = 10, warmup = 5, learning_rate = 3e-3;
      seeds = 1, samples = 8, lengths = 4;
      break;
  }
}

void CopySettings::visit(const Visitor& visitor) {
  TaskSettings::visit(visitor);
  visitor("reading", &reading, "paper: N within the reach of the windows; strict: beyond; both");
  visitor("least", &least, "Smallest N in training");
  visitor("paper_most", &paper_most, "Largest N in training over the reach, in the paper's reading");
  visitor("paper_longest", &paper_longest, "Largest N in the test over the reach, in the paper's reading");
  visitor("strict_most", &strict_most, "Largest N in training over the reach, in the strict reading");
  visitor("strict_longest", &strict_longest, "Largest N in the test over the reach, in the strict reading");
  visitor("symbols", &symbols, "Different bytes to copy");
  visitor("samples", &samples, "Texts per length and seed in tests");
  visitor("lengths", &lengths, "Lengths in tests");
  visitor("curriculum", &curriculum, "Raise the largest N as accuracy passes raise_at");
  visitor("curriculum_start", &curriculum_start, "Largest N at first");
  visitor("curriculum_growth", &curriculum_growth, "Factor of each raise");
  visitor("raise_at", &raise_at, "Accuracy at the largest N that raises it");
  visitor("finish_at", &finish_at, "Accuracy over all trained lengths at which a training ends early");
}

std::vector<std::string> CopySettings::problems() {
  std::vector<std::string> found = TaskSettings::problems();
  if (!found.empty()) return found;
  require(found, reading == kPaper || reading == kStrict || reading == kBoth,
          fmt::format("reading is '{}', expected paper, strict or both", reading));
  require(found, symbols >= 2 && symbols <= CopyTask::kMaxSymbols,
          fmt::format("symbols is {}; it must be from 2 to {}", symbols, CopyTask::kMaxSymbols));
  require(found, least >= 1 && least <= most(kPaper) && least <= most(kStrict),
          fmt::format("least is {}; it must be from 1 to the largest N, {}", least, most(kPaper)));
  require(found, paper_longest >= paper_most && strict_longest >= strict_most,
          "paper_longest and strict_longest must not be below paper_most and strict_most");
  require(found, paper_most <= 1, fmt::format("paper_most is {}; beyond 1 it is the strict reading", paper_most));
  require(found, strict_most > 1,
          fmt::format("strict_most is {}; up to 1 the windows can see what to copy", strict_most));
  require(found, samples >= 1 && lengths >= 2, "samples must be at least 1 and lengths at least 2");
  require(found, !curriculum || (curriculum_start >= least && curriculum_growth > 1),
          "curriculum_start must not be below least, and curriculum_growth must be above 1");
  return found;
}

CopyTask CopySettings::task() const {
  CopyTask task;
  task.bos = pmnet_config().bos_token_id;
  task.delimiter = pmnet_config().eos_token_id;
  task.symbols = symbols;
  return task;
}

std::vector<std::string> CopySettings::readings() const {
  if (reading == kBoth) return {kPaper, kStrict};
  return {reading};
}

int64_t CopySettings::most(const std::string& which) const {
  const double share = which == kPaper ? paper_most : strict_most;
  return std::max<int64_t>(1, std::llround(share * static_cast<double>(reach())));
}

int64_t CopySettings::longest(const std::string& which) const {
  const double share = which == kPaper ? paper_longest : strict_longest;
  return std::max<int64_t>(1, std::llround(share * static_cast<double>(reach())));
}

std::vector<int64_t> CopySettings::tested(const std::string& which) const {
  std::vector<int64_t> list = {most(which), longest(which)};
  if (which == kStrict) list.push_back(reach() + 1);
  for (int64_t i = 0; i < lengths - 1; ++i)
    list.push_back(least + (most(which) - least) * i / std::max<int64_t>(1, lengths - 1));
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

int64_t CopySettings::stage_most(const std::string& which, int64_t stage) const {
  if (!curriculum) return most(which);
  int64_t length = curriculum_start;
  for (int64_t i = 0; i < stage && length < most(which); ++i)
    length = std::max(length + 1, static_cast<int64_t>(curriculum_growth * static_cast<double>(length)));
  return std::min(length, most(which));
}

std::string CopyExperiment::Arm::train_name() const {
  return fmt::format("train {}, {} reading, seed {}", contender_name(contender), reading, seed);
}

std::string CopyExperiment::Arm::test_name() const {
  return fmt::format("test {}, {} reading, seed {}", contender_name(contender), reading, seed);
}

std::vector<CopyExperiment::Arm> CopyExperiment::arms() const {
  std::vector<Arm> list;
  for (const std::string& reading : settings_.readings())
    for (int64_t seed = 1; seed <= settings_.seeds; ++seed)
      for (const Contender contender : kContenders) list.push_back({reading, contender, seed});
  return list;
}

TaskTraining CopyExperiment::training(const Arm& arm) const {
  TaskTraining training;
  training.model = settings_.model_config(arm.contender);
  training.config = settings_.train_config(arm.seed);
  const CopyTask task = settings_.task();
  training.batch = [=, this](int64_t step, int64_t stage) {
    return make_copy_batch(task, settings_.least, settings_.stage_most(arm.reading, stage),
                           static_cast<uint64_t>(arm.seed), step, settings_.batch);
  };
  training.evaluate = [=, this](const LanguageModel& model, int64_t stage) {
    TaskTraining::Evaluation found;
    const int64_t most = settings_.most(arm.reading), now = settings_.stage_most(arm.reading, stage);
    const auto score = [&](int64_t length) {
      return score_copy(model, task, length, settings_.samples, validation_seed(arm.seed));
    };
    double loss = 0, count = 0;
    for (const int64_t length : settings_.tested(arm.reading)) {
      if (length > most) continue;
      const CopyScore here = score(length);
      found.score += here.token_accuracy;
      loss += here.loss;
      count += 1;
    }
    found.score /= count;
    const double at_largest = score(now).token_accuracy;
    found.next_stage = now < most && at_largest >= settings_.raise_at;
    found.finished = now == most && std::min(found.score, at_largest) >= settings_.finish_at;
    found.metrics = {{"eval/loss", loss / count},
                     {"eval/accuracy_at_largest", at_largest},
                     {"eval/largest", static_cast<double>(now)}};
    return found;
  };
  return training;
}

Part CopyExperiment::train_part(const Arm& arm) const {
  Part part;
  part.name = arm.train_name();
  part.timed_as = fmt::format("train {}, {}", contender_name(arm.contender), arm.reading);
  TaskTraining hardest = training(arm);  // a curriculum begins with short texts, which say little of the cost
  hardest.batch = [=, this](int64_t step, int64_t) {
    return make_copy_batch(settings_.task(), settings_.least, settings_.most(arm.reading),
                           static_cast<uint64_t>(arm.seed), step, settings_.batch);
  };
  part.cost = training_cost(hardest);
  part.estimate_seconds = [=, this] { return time_task_step(hardest) * static_cast<double>(settings_.steps); };
  part.run = [=, this](PartContext& context) { return to_json(train_on_task(training(arm), context)); };
  return part;
}

Part CopyExperiment::test_part(const Arm& arm) const {
  const ModelConfig model = settings_.model_config(arm.contender);
  Part part;
  part.name = arm.test_name();
  part.cost.parameters = parameter_count(model);
  for (const int64_t length : settings_.tested(arm.reading))
    part.cost.bytes += static_cast<double>(settings_.samples * (2 * length + 1));
  part.cost.flop = part.cost.bytes * 2 * total(multiply_adds_per_token(model, settings_.longest(arm.reading)));
  part.run = [=, this](PartContext& context) { return test(arm, context); };
  return part;
}

std::vector<Part> CopyExperiment::parts() {
  std::vector<Part> parts;
  for (const Arm& arm : arms()) {
    parts.push_back(train_part(arm));
    parts.push_back(test_part(arm));
  }
  return parts;
}

json CopyExperiment::test(const Arm& arm, PartContext& context) const {
  const LoadedModel loaded = load_model(context.folder_of(arm.train_name()) / "model");
  const std::vector<int64_t> lengths = settings_.tested(arm.reading);
  json result = {{"lengths", lengths}};
  for (size_t i = 0; i < lengths.size(); ++i) {
    context.progress(static_cast<double>(i) / static_cast<double>(lengths.size()), fmt::format("N = {}", lengths[i]));
    const CopyScore score = score_copy(*loaded.model, settings_.task(), lengths[i], settings_.samples,
                                       static_cast<uint64_t>(arm.seed), [&] { context.stop().throw_if_requested(); });
    result["token_accuracy"].push_back(score.token_accuracy);
    result["sequence_accuracy"].push_back(score.sequence_accuracy);
    result["loss"].push_back(score.loss);
  }
  return result;
}

std::unique_ptr<Experiment> make_copy_experiment(Recipe recipe) { return std::make_unique<CopyExperiment>(recipe); }

}  // namespace pmnet
