// The controlled comparison (figure 3): PMNet, the same without recurrence, Transformer and Mamba, trained on the same
// batches with the same number of parameters, and evaluated inside and far beyond the trained length.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "config/costs.h"
#include "data/permutation.h"
#include "data/stories.h"
#include "eval/eval_report.h"
#include "eval/score_files.h"
#include "experiments/compare/compare.h"
#include "experiments/framework/task_training.h"
#include "model/model_folder.h"
#include "report/curves.h"
#include "train/validation.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kTextsPart = "texts";
constexpr uint64_t kTrainSeed = 1, kBookSeed = 2;  // of our own tales
constexpr double kComparable = 0.02;               // bits per byte that count as no difference
constexpr double kVisible = 0.001;                 // bits per byte that count as one
constexpr int64_t kFar = 4;                        // times the trained length

// The six curves: how a model was trained, and whether its memory recurs when it is evaluated.
struct Curve {
  const char* label;
  const char* training;
  bool recurrence;
};
enum CurveNumber : size_t { kPmnet, kNoRecurrence, kNeither, kUntrainedMemory, kTransformer, kMamba };
constexpr Curve kCurves[] = {{"PMNet", "pmnet", true},
                             {"No Recurrence", "pmnet", false},
                             {"No Memory / No Recurrence", "pmnet without recurrence", false},
                             {"No Memory / Recurrence", "pmnet without recurrence", true},
                             {"Transformer", "transformer", true},
                             {"Mamba", "mamba", true}};

struct TrainingTexts {
  std::shared_ptr<const DocumentSet> train, held_out;
  std::string fingerprint() const { return fmt::format("{:016x}-{:016x}", train->fingerprint, held_out->fingerprint); }
};

class CompareExperiment : public Experiment {
 public:
  explicit CompareExperiment(Recipe recipe) : settings_(recipe) {}
  Settings& settings() override { return settings_; }
  std::vector<Part> parts() override;
  Report report(const Results& results, const fs::path& folder) override;

 private:
  static std::string evaluate_name(int64_t seed) { return fmt::format("evaluate, seed {}", seed); }
  double trained_bytes() const { return static_cast<double>(settings_.steps * settings_.batch * settings_.context); }
  TrainingTexts open_texts(const PartContext& context) const;
  Part texts_part() const;
  Part train_part(const std::string& training, int64_t seed) const;
  Part evaluate_part(int64_t seed) const;
  TaskTraining training(const std::string& name, int64_t seed) const;
  json train(const std::string& name, int64_t seed, PartContext& context) const;
  json evaluate_seed(int64_t seed, PartContext& context) const;

  // How much more one curve needs than another at some positions, over seeds where there are
  // several, else over documents.
  Check difference(const std::string& what, CurveNumber curve, CurveNumber base, const Positions& positions) const;
  // By how much a curve is higher far beyond the trained length than in the second half of it.
  Check drift(CurveNumber curve, int64_t last) const;
  Interval over_seeds(const std::function<Interval(const Evaluation&)>& measure) const;
  Finding against_baselines(const fs::path& folder) const;
  Finding beyond() const;
  Finding ablations() const;
  Finding trainings(const Results& results, const fs::path& folder) const;

  CompareSettings settings_;
  std::vector<Evaluation> seeds_;  // of the report
  Evaluation pooled_;              // all of them
};

TrainingTexts CompareExperiment::open_texts(const PartContext& context) const {
  CorpusSpec spec;
  spec.read.text_field = settings_.text_field;
  spec.hold_out.by = HoldOut::By::kAuto;
  spec.hold_out.fraction = settings_.hold_out;
  if (settings_.text.empty()) {
    spec.sources = {{{(context.folder_of(kTextsPart) / "tales.jsonl").string()}, 1}};
    spec.read.text_field = "text";
    spec.cache_folder = (context.folder_of(kTextsPart) / "cache").string();
  } else {
    spec.sources = {{settings_.text, 1}};
  }
  Corpus corpus = open_corpus(spec);
  return {std::make_shared<DocumentSet>(std::move(corpus.train)),
          std::make_shared<DocumentSet>(std::move(corpus.held_out))};
}

Part CompareExperiment::texts_part() const {
  if (!settings_.text.empty()) find_inputs(settings_.text);
  Part part;
  part.name = kTextsPart;
  part.run = [this](PartContext& context) {
    if (settings_.text.empty()) {
      const fs::path file = context.folder() / "tales.jsonl";
      fs::remove(file);
      StoryOptions options;
      options.seed = kTrainSeed;
      options.typical_bytes = static_cast<uint64_t>(settings_.story_bytes);
      // A little more than is trained on, for what is held out.
      write_stories(file.string(), static_cast<uint64_t>(trained_bytes() * (1 + 2 * settings_.hold_out)) + 4096,
                    options, [&](uint64_t) { context.stop().throw_if_requested(); });
    }
    const TrainingTexts texts = open_texts(context);
    return json{{"fingerprint", texts.fingerprint()},
                {"documents", texts.train->documents()},
                {"bytes", texts.train->bytes()},
                {"held_out_bytes", texts.held_out->bytes()}};
  };
  return part;
}

TaskTraining CompareExperiment::training(const std::string& name, int64_t seed) const {
  TaskTraining training;
  training.model = settings_.config_of(name);
  training.config = settings_.train_config_of(name, seed);
  return training;
}

json CompareExperiment::train(const std::string& name, int64_t seed, PartContext& context) const {
  const TrainingTexts texts = open_texts(context);
  if (const std::string before = context.result_of(kTextsPart).at("fingerprint"); before != texts.fingerprint())
    fail("the texts are not those that this experiment began with (their fingerprint was {} and is {}); restore them",
         before, texts.fingerprint());
  TaskTraining training = this->training(name, seed);
  const PmnetConfig reference = settings_.pmnet_config();
  BatchOptions options;
  options.rows = settings_.batch;
  options.context = settings_.context;
  options.seed = static_cast<uint64_t>(seed);
  options.framing = {.bos = reference.bos_token_id, .eos = reference.eos_token_id, .pad = 0};
  const auto batcher = std::make_shared<Batcher>(texts.train, options);
  training.batch = [batcher](int64_t step, int64_t) { return batcher->make(step); };
  const auto evaluator =
      std::make_shared<Validation>(texts.held_out, training.config, options.framing, context.group());
  training.evaluate = [evaluator, &context](const LanguageModel& model, int64_t) {
    const std::optional<double> bits = evaluator->bits_per_byte(model, context.stop());
    if (!bits) throw StopRequested{};
    TaskTraining::Evaluation found;
    found.score = -*bits;
    found.metrics = {{"val/bpb", *bits}};
    return found;
  };
  return to_json(train_on_task(training, context));
}

Part CompareExperiment::train_part(const std::string& name, int64_t seed) const {
  Part part;
  part.name = CompareSettings::train_part(name, seed);
  part.timed_as = "train " + name;
  const ModelConfig config = settings_.config_of(name);
  part.cost.parameters = parameter_count(config);
  part.cost.bytes = trained_bytes();
  part.cost.flop = part.cost.bytes * training_flop_per_byte(config, settings_.context);
  part.estimate_seconds = [=, this] {
    TaskTraining timed = training(name, seed);
    timed.batch = [this](int64_t, int64_t) { return settings_.random_batch(); };
    return time_task_step(timed) * static_cast<double>(settings_.steps);
  };
  part.run = [=, this](PartContext& context) { return train(name, seed, context); };
  return part;
}

json CompareExperiment::evaluate_seed(int64_t seed, PartContext& context) const {
  std::map<std::string, std::shared_ptr<const LanguageModel>> models;
  for (const std::string& name : CompareSettings::trainings())
    models[name] = load_model(context.folder_of(CompareSettings::train_part(name, seed)) / "model").model;
  std::vector<Candidate> scored;
  for (const Curve& curve : kCurves) {
    MemorySwitches switches;
    switches.recurrence = curve.recurrence;
    const bool attends = std::string(curve.training) == "transformer";
    scored.push_back(
        {curve.label, make_engine(models.at(curve.training), switches), attends ? settings_.attention_limit : 0});
  }
  EvalSettings reading;
  reading.rows = rows_for_threads(at::get_num_threads());
  reading.window = curve_window(settings_.context);
  return score_books(scored, settings_.books, reading, context);
}

Part CompareExperiment::evaluate_part(int64_t seed) const {
  Part part;
  part.name = evaluate_name(seed);
  for (const Curve& curve : kCurves) {
    const bool attends = std::string(curve.training) == "transformer";
    const PartCost cost =
        reading_cost(settings_.config_of(curve.training), settings_.books, attends ? settings_.attention_limit : 0);
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
    for (const std::string& name : CompareSettings::trainings()) parts.push_back(train_part(name, seed));
    parts.push_back(evaluate_part(seed));
  }
  return parts;
}

Interval CompareExperiment::over_seeds(const std::function<Interval(const Evaluation&)>& measure) const {
  if (seeds_.size() == 1) return measure(seeds_[0]);
  std::vector<double> means;
  for (const Evaluation& seed : seeds_) means.push_back(measure(seed).mean);
  return mean_interval(means);
}

Check CompareExperiment::difference(const std::string& what, CurveNumber curve, CurveNumber base,
                                    const Positions& positions) const {
  Check check;
  check.what = fmt::format("{}: {} less {}, bits per byte", what, kCurves[curve].label, kCurves[base].label);
  check.measured =
      over_seeds([&](const Evaluation& evaluation) { return mean_bits_between(evaluation, positions, curve, base); });
  if (seeds_.size() == 1) check.over = "documents";
  return check;
}

Check CompareExperiment::drift(CurveNumber curve, int64_t last) const {
  Check check;
  const int64_t trained = settings_.context;
  check.what = fmt::format("{} past {} bytes less {} inside the trained {}, bits per byte", kCurves[curve].label,
                           format_count(static_cast<uint64_t>(kFar * trained)), kCurves[curve].label,
                           format_count(static_cast<uint64_t>(trained)));
  check.measured = over_seeds([&](const Evaluation& evaluation) {
    return change_between(evaluation, curve, {trained / 2 + 1, trained}, {kFar * trained + 1, last});
  });
  if (seeds_.size() == 1) check.over = "documents";
  return check;
}

Check with(Check check, Bound bound, double threshold, bool control = false) {
  check.bound = bound;
  check.threshold = threshold;
  check.control = control;
  return check;
}

Finding CompareExperiment::against_baselines(const fs::path& folder) const {
  Finding finding;
  finding.heading = "PMNet against Transformer and Mamba";
  finding.claim =
      "PMNet consistently outperforms parameter-matched Transformer and Mamba baselines (the paper's figure 3).";
  const int64_t limit = std::min(settings_.attention_limit, settings_.books.bytes);
  const std::string upto = fmt::format("positions up to {}", format_count(static_cast<uint64_t>(limit)));
  finding.checks = {
      with(difference(upto, kTransformer, kPmnet, {1, limit}), Bound::kAtLeast, 0),
      with(difference("all positions", kMamba, kPmnet, {1, 0}), Bound::kAtLeast, 0),
      with(difference("all positions", kUntrainedMemory, kPmnet, {1, 0}), Bound::kAtLeast, kVisible, /*control=*/true)};
  finding.remarks = {
      "The control is a PMNet of the same size and the same batches whose memory recurs in the evaluation but did not "
      "in training: it must be worse, or what is measured does not depend on the memory at all."};
  std::vector<LineChart> charts = eval_charts(pooled_);
  for (LineChart& chart : charts) chart.markers = {{static_cast<double>(settings_.context), "trained"}};
  write_chart(charts[0], (folder / "position.svg").string());
  write_chart(charts[1], (folder / "cumulative.svg").string());
  write_chart(charts[2], (folder / "difference.svg").string());
  finding.pictures = {{"position.svg", "Bits per byte by position; bands are 95% intervals over documents and seeds."},
                      {"cumulative.svg", "The same up to a position."},
                      {"difference.svg", "How much more than PMNet the others need."}};
  finding.tables = {{"All documents and seeds together.", model_table(pooled_)},
                    {"Bits per byte by octave of positions.", octave_table(pooled_)}};
  return finding;
}

Finding CompareExperiment::ablations() const {
  Finding finding;
  finding.heading = "A sliding window alone";
  finding.claim =
      "Trained without memory recurrence, the same network is comparable to PMNet at this scale, while switching the "
      "recurrence on only for the evaluation makes it worse (the paper's simplicity bias).";
  finding.checks = {
      with(difference("all positions", kNeither, kPmnet, {1, 0}), Bound::kAtMost, kComparable),
      with(difference("all positions", kNeither, kPmnet, {1, 0}), Bound::kAtLeast, -kComparable),
      with(difference("all positions", kUntrainedMemory, kPmnet, {1, 0}), Bound::kAtLeast, 0),
      with(difference("all positions", kUntrainedMemory, kNeither, {1, 0}), Bound::kAtLeast, 0, /*control=*/true)};
  finding.remarks = {
      fmt::format("Comparable means within {} bits per byte. The control: a memory that was never "
                  "trained must not help.",
                  kComparable)};
  return finding;
}

Finding CompareExperiment::beyond() const {
  Finding finding;
  finding.heading = "Far beyond the trained length";
  finding.claim = "PMNet reads on past the length it was trained on without getting worse; the Transformer does not.";
  const int64_t limit = std::min(settings_.attention_limit, settings_.books.bytes);
  const int64_t far = kFar * settings_.context;
  finding.checks = {with(drift(kPmnet, 0), Bound::kAtMost, kComparable)};
  if (limit > far) {
    finding.checks.push_back(with(difference(fmt::format("positions past {}", format_count(static_cast<uint64_t>(far))),
                                             kTransformer, kPmnet, {far + 1, limit}),
                                  Bound::kAtLeast, 0));
    finding.checks.push_back(with(drift(kTransformer, limit), Bound::kAtLeast, kComparable, /*control=*/true));
  }
  finding.remarks = {fmt::format("The Transformer keeps everything it has read, so it is read only up to {} bytes.",
                                 format_count(static_cast<uint64_t>(limit)))};
  return finding;
}

Finding CompareExperiment::trainings(const Results& results, const fs::path& folder) const {
  Finding finding;
  finding.heading = "Trainings";
  const auto reference = static_cast<double>(parameter_count(settings_.config_of("pmnet")));
  Table table({"model", "seed", "parameters", "more than PMNet", "steps", "best step", "held-out bits per byte",
               "largest norm", "batches"});
  std::vector<Run> runs;
  bool same_batches = true;
  for (int64_t seed = 1; seed <= settings_.seeds; ++seed)
    for (const std::string& name : CompareSettings::trainings()) {
      const std::string part = CompareSettings::train_part(name, seed);
      const json& result = results.at(part);
      const auto parameters = static_cast<double>(parameter_count(settings_.config_of(name)));
      same_batches = same_batches &&
                     result.at("batch_hash") == results.at(CompareSettings::train_part("pmnet", seed)).at("batch_hash");
      table.add_row({name, std::to_string(seed), format_count(static_cast<uint64_t>(parameters)),
                     fmt::format("{:+.2f}%", 100 * (parameters / reference - 1)),
                     std::to_string(result.at("steps").get<int64_t>()),
                     std::to_string(result.at("best_step").get<int64_t>()),
                     fmt::format("{:.4f}", -number_of(result.at("best_score"))),
                     fmt::format("{:.3g}", number_of(result.at("largest_norm"))), result.at("batch_hash")});
      runs.push_back(read_run((folder / "parts" / folder_name(part)).string()));
      runs.back().name = fmt::format("{}, seed {}", name, seed);
    }
  // A training that diverged has seen fewer batches; its table row says so.
  finding.remarks.push_back(same_batches ? "All models of a seed were trained on byte-identical batches: the hashes of "
                                           "all their batches in order are equal."
                                         : "NOT all models of a seed were trained on the same batches: see the steps "
                                           "and hashes.");
  finding.tables = {{"Parameters agree within 2%.", table}};
  write_charts(curves_of(runs, {"val/bpb", "train/grad_norm"}), (folder / "training.svg").string());
  finding.pictures = {{"training.svg", "Bits per byte of held-out text and gradient norm during training."}};
  return finding;
}

Report CompareExperiment::report(const Results& results, const fs::path& folder) {
  seeds_.clear();
  pooled_ = {};
  for (int64_t seed = 1; seed <= settings_.seeds; ++seed) {
    seeds_.push_back(load_scores(results.at(evaluate_name(seed))));
    add_documents(pooled_, seeds_.back());
  }
  write_file_atomically(folder / "curves.csv", curve_table(pooled_).csv());
  Report report;
  report.title = "Controlled comparison";
  report.protocol = {
      fmt::format(
          "Four models are trained from random weights on {} bytes each, {} samples of {} bytes per step, AdamW "
          "with a cosine schedule, on {}. Every training keeps the weights that did best on held-out text.",
          format_count(static_cast<uint64_t>(trained_bytes())), settings_.batch, settings_.context,
          settings_.text.empty() ? "tales of our own grammar, whose endings need facts from their beginnings"
                                 : "the given texts"),
      "No Recurrence: PMNet, its memory switched off in the evaluation only. No Memory / No Recurrence: switched off "
      "in "
      "both, a pure sliding window with the same parameters. No Memory / Recurrence: off in training, on in the "
      "evaluation.",
      "Evaluation: " + protocol_of({}, settings_.books.limits()) + ".",
      settings_.seeds > 1
          ? "Intervals of the checks are over seeds (paired: all models of a seed see the same batches)."
          : "One seed: intervals of the checks are over documents and say nothing about other seeds."};
  report.findings = {against_baselines(folder), ablations(), beyond(), trainings(results, folder)};
  return report;
}

}  // namespace

std::unique_ptr<Experiment> make_compare_experiment(Recipe recipe) {
  return std::make_unique<CompareExperiment>(recipe);
}

}  // namespace pmnet
