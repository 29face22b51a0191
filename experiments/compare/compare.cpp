#include "experiments/compare/compare.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "config/costs.h"
#include "data/stories.h"
#include "model/model_folder.h"
#include "train/validation.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kTextsPart = "texts";
constexpr uint64_t kTrainSeed = 1, kBookSeed = 2;  // of the synthetic stories
constexpr double kMatched = 0.02;                  // largest difference in parameters

struct TrainingTexts {
  std::shared_ptr<const DocumentSet> train, held_out;
  std::string fingerprint() const { return fmt::format("{:016x}-{:016x}", train->fingerprint, held_out->fingerprint); }
};

TrainingTexts open_texts(const CompareSettings& settings, const PartContext& context) {
  CorpusSpec spec;
  spec.read.text_field = settings.text_field;
  spec.hold_out.by = HoldOut::By::kAuto;
  spec.hold_out.fraction = settings.hold_out;
  if (settings.text.empty()) {
    spec.sources = {{{(context.folder_of(kTextsPart) / "stories.jsonl").string()}, 1}};
    spec.read.text_field = "text";
    spec.cache_folder = (context.folder_of(kTextsPart) / "cache").string();
  } else {
    spec.sources = {{settings.text, 1}};
  }
  Corpus corpus = open_corpus(spec);
  return {std::make_shared<DocumentSet>(std::move(corpus.train)),
          std::make_shared<DocumentSet>(std::move(corpus.held_out))};
}

// Bytes that mean nothing, to time a step with.
Batch random_batch(int64_t rows, int64_t context) {
  Batch batch;
  batch.rows = rows;
  batch.context = context;
  for (int64_t i = 0; i < rows * (context + 1); ++i)
    batch.ids.push_back(static_cast<int64_t>(splitmix64(static_cast<uint64_t>(i)) % 256));
  batch.lengths.assign(rows, context);
  batch.loss_mask.assign(rows * context, 1);
  batch.continues.assign(rows, 0);
  for (int64_t row = 0; row < rows; ++row) batch.sample_ids.push_back(row);
  return batch;
}

}  // namespace

void CompareSettings::list_fields(SettingsTable& table) {
  TrainingSettings::list_fields(table);
  table.add("text", &text, "Texts to train on; none: synthetic stories");
  table.add("text_field", &text_field, "Their field in JSONL, their column in Parquet");
  table.add("hold_out", &hold_out, "Share of them that is held out, to keep the best weights by",
            Range{0, 1, true, true});
  table.add("context", &context, "Bytes per sample", kPositive);
  table.add("story_bytes", &story_bytes, "Typical length of the synthetic stories", from_to(100, 1e9));
  table.add("eval_bytes", &eval_bytes, "Bytes of held-out text in each evaluation", kPositive);
  table.add("attention_limit", &attention_limit, "Bytes of a document that the Transformer reads", kPositive);
  books.list_fields(table, "eval_text");
}

std::vector<std::string> CompareSettings::problems() {
  std::vector<std::string> found = TrainingSettings::problems();
  require(found, learning_rates.size() <= 1, "lr has several values; the comparison takes one");
  require(found, text.empty() == books.text.empty(),
          fmt::format("{} is given and {} is not; give both, of different documents, or neither",
                      text.empty() ? "eval_text" : "text", text.empty() ? "text" : "eval_text"));
  require(
      found, books.bytes > context,
      fmt::format("bytes is {}, which is within the trained context of {}; it must be longer", books.bytes, context));
  if (!found.empty()) return found;
  const auto parameters = static_cast<double>(parameter_count(pmnet_config()));
  for (const CandidateSpec& candidate : candidates()) {
    const double difference =
        std::abs(static_cast<double>(parameter_count(candidate.config)) - parameters) / parameters;
    require(found, difference <= kMatched || !candidate.trains(),
            fmt::format("{} cannot be given PMNet's number of parameters: it is {:.1f}% off, at most {:.0f}% is fair; "
                        "choose other sizes",
                        candidate.name, 100 * difference, 100 * kMatched));
  }
  return found;
}

std::vector<CandidateSpec> CompareSettings::candidates() const {
  const MemorySwitches on = {.recurrence = true}, off = {.recurrence = false};
  CandidateSpec pmnet = candidate(CandidateKind::kPmnet);
  pmnet.tested = on;
  CandidateSpec no_recurrence = pmnet;
  no_recurrence.name = "pmnet with recurrence off";
  no_recurrence.title = "No Recurrence";
  no_recurrence.tested = off;
  CandidateSpec neither = pmnet;
  neither.name = neither.training = "pmnet without recurrence";
  neither.title = "No Memory / No Recurrence";
  neither.trained = neither.tested = off;
  CandidateSpec untrained = neither;
  untrained.name = "pmnet with recurrence on";
  untrained.title = "No Memory / Recurrence";
  untrained.tested = on;
  return {pmnet,
          no_recurrence,
          neither,
          untrained,
          candidate(CandidateKind::kTransformer, attention_limit),
          candidate(CandidateKind::kMamba)};
}

std::string CompareSettings::train_part(const std::string& training, int64_t seed) {
  return fmt::format("train {}, seed {}", training, seed);
}

std::string CompareSettings::evaluate_part(int64_t seed) { return fmt::format("evaluate, seed {}", seed); }

double CompareSettings::trained_bytes() const { return static_cast<double>(train.steps * train.batch * context); }

Part CompareExperiment::texts_part() const {
  if (!settings_.text.empty()) find_inputs(settings_.text);
  Part part;
  part.name = kTextsPart;
  part.run = [this](PartContext& context) {
    if (settings_.text.empty()) {
      const fs::path file = context.folder() / "stories.jsonl";
      fs::remove(file);
      StoryOptions options;
      options.seed = kTrainSeed;
      options.typical_bytes = static_cast<uint64_t>(settings_.story_bytes);
      // A little more than is trained on, for what is held out.
      const double bytes = settings_.trained_bytes() * (1 + 2 * settings_.hold_out) + 4096;
      write_stories(file.string(), static_cast<uint64_t>(bytes), options,
                    [&](uint64_t) { context.stop().throw_if_requested(); });
    }
    const TrainingTexts texts = open_texts(settings_, context);
    return json{{"fingerprint", texts.fingerprint()},
                {"documents", texts.train->documents()},
                {"bytes", texts.train->bytes()},
                {"held_out_bytes", texts.held_out->bytes()}};
  };
  return part;
}

TaskTraining CompareExperiment::training(const CandidateSpec& candidate, int64_t seed) const {
  TaskTraining training;
  training.model = candidate.config;
  training.config = settings_.train_config(candidate, settings_.learning_rates.front(), seed);
  training.config.context = settings_.context;
  training.config.eval_bytes = settings_.eval_bytes;
  if (!settings_.begin_from.empty())
    training.begin_from = fs::path(settings_.begin_from) / "parts" /
                          folder_name(CompareSettings::train_part(candidate.training, seed)) / "model";
  return training;
}

json CompareExperiment::train(const CandidateSpec& candidate, int64_t seed, PartContext& context) const {
  const TrainingTexts texts = open_texts(settings_, context);
  if (const std::string before = context.result_of(kTextsPart).at("fingerprint"); before != texts.fingerprint())
    fail("the texts are not those that this experiment began with (their fingerprint was {} and is {}); restore them",
         before, texts.fingerprint());
  TaskTraining training = this->training(candidate, seed);
  const PmnetConfig reference = settings_.pmnet_config();
  BatchOptions options;
  options.rows = settings_.train.batch;
  options.context = settings_.context;
  options.seed = static_cast<uint64_t>(seed);
  options.framing = {.bos = reference.bos_token_id, .eos = reference.eos_token_id, .pad = 0};
  const auto batcher = std::make_shared<Batcher>(texts.train, options);
  training.batch = [batcher](int64_t step, int64_t) { return batcher->make(step); };
  const auto validation =
      std::make_shared<Validation>(texts.held_out, training.config, options.framing, context.group());
  training.evaluate = [validation, &context](const LanguageModel& model, int64_t) {
    const std::optional<double> bits = validation->bits_per_byte(model, context.stop());
    if (!bits) throw StopRequested{};
    TaskTraining::Evaluation found;
    found.score = -*bits;
    found.metrics = {{"val/bpb", *bits}};
    return found;
  };
  return to_json(train_on_task(training, context));
}

Part CompareExperiment::train_part(const CandidateSpec& candidate, int64_t seed) const {
  Part part;
  part.name = CompareSettings::train_part(candidate.training, seed);
  part.timed_as = "train " + candidate.training;
  part.cost.parameters = parameter_count(candidate.config);
  part.cost.bytes = settings_.trained_bytes();
  part.cost.flop = part.cost.bytes * training_flop_per_byte(candidate.config, settings_.context);
  part.estimate_seconds = [=, this] {
    TaskTraining timed = training(candidate, seed);
    timed.batch = [this](int64_t, int64_t) { return random_batch(settings_.train.batch, settings_.context); };
    return time_task_step(timed) * static_cast<double>(settings_.train.steps);
  };
  part.run = [=, this](PartContext& context) { return train(candidate, seed, context); };
  return part;
}

json CompareExperiment::evaluate_seed(int64_t seed, PartContext& context) const {
  std::map<std::string, std::shared_ptr<const LanguageModel>> models;
  std::vector<Candidate> scored;
  for (const CandidateSpec& candidate : settings_.candidates()) {
    std::shared_ptr<const LanguageModel>& model = models[candidate.training];
    if (!model)
      model = load_model(context.folder_of(CompareSettings::train_part(candidate.training, seed)) / "model").model;
    scored.push_back({candidate.title, make_engine(model, candidate.tested), candidate.limit});
  }
  EvalSettings reading;
  reading.rows = rows_for_threads(at::get_num_threads());
  reading.window = curve_window(settings_.context);
  return score_books(scored, settings_.books, reading, context);
}

Part CompareExperiment::evaluate_part(int64_t seed) const {
  Part part;
  part.name = CompareSettings::evaluate_part(seed);
  for (const CandidateSpec& candidate : settings_.candidates()) {
    const PartCost cost = reading_cost(candidate.config, settings_.books, candidate.limit);
    part.cost.parameters = std::max(part.cost.parameters, cost.parameters);
    part.cost.bytes += cost.bytes;
    part.cost.flop += cost.flop;
  }
  part.run = [=, this](PartContext& context) { return evaluate_seed(seed, context); };
  return part;
}

std::vector<Part> CompareExperiment::parts() {
  std::vector<Part> parts = {texts_part(), books_part(settings_.books, kBookSeed)};
  for (int64_t seed = 1; seed <= settings_.seeds; ++seed) {
    for (const CandidateSpec& candidate : settings_.candidates())
      if (candidate.trains()) parts.push_back(train_part(candidate, seed));
    parts.push_back(evaluate_part(seed));
  }
  return parts;
}

}  // namespace pmnet
