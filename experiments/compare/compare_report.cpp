#include <fmt/format.h>

#include <algorithm>

#include "base/atomic_folder.h"
#include "base/format.h"
#include "config/costs.h"
#include "eval/eval_report.h"
#include "experiments/compare/compare.h"
#include "experiments/framework/seeded_scores.h"
#include "experiments/framework/training_charts.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kComparable = 0.02;  // bits per byte that count as no difference
constexpr double kVisible = 0.001;    // bits per byte that count as one
constexpr int64_t kFar = 4;           // times the trained length

std::string counted(int64_t bytes) { return format_count(static_cast<uint64_t>(bytes)); }

// What the report is made from.
struct Comparison : SeededScores {
  const CompareSettings& settings;
  std::vector<CandidateSpec> candidates;

  explicit Comparison(const CompareSettings& made_with) : settings(made_with), candidates(made_with.candidates()) {}
  const std::string& title(CompareCurve curve) const { return candidates[curve].title; }
  int64_t attention_limit() const { return std::min(settings.attention_limit, settings.books.bytes); }

  // How much more one curve needs than another at some positions.
  Check difference(const std::string& where, CompareCurve curve, CompareCurve base, const Positions& positions,
                   Bound bound, double threshold) const {
    return {fmt::format("{}: {} less {}, bits per byte", where, title(curve), title(base)),
            over_seeds([&](const Evaluation& seed) { return mean_bits_between(seed, positions, curve, base); }), bound,
            threshold, over()};
  }

  // By how much a curve is higher far beyond the trained length than in the second half of it.
  Check drift(CompareCurve curve, int64_t last, Bound bound, double threshold) const {
    const int64_t trained = settings.context;
    return {fmt::format("{} past {} bytes less {} inside the trained {}, bits per byte", title(curve),
                        counted(kFar * trained), title(curve), counted(trained)),
            over_seeds([&](const Evaluation& seed) {
              return change_between(seed, curve, {trained / 2 + 1, trained}, {kFar * trained + 1, last});
            }),
            bound, threshold, over()};
  }
};

Finding against_baselines(const Comparison& all, const fs::path& folder) {
  const int64_t limit = all.attention_limit();
  Finding finding;
  finding.heading = "PMNet against Transformer and Mamba";
  finding.claim =
      "PMNet consistently outperforms parameter-matched Transformer and Mamba baselines (the paper's figure 3).";
  finding.checks = {
      all.difference("positions up to " + counted(limit), kTransformer, kPmnet, {1, limit}, Bound::kAtLeast, 0),
      all.difference("all positions", kMamba, kPmnet, {1, 0}, Bound::kAtLeast, 0),
      control(all.difference("all positions", kUntrainedMemory, kPmnet, {1, 0}, Bound::kAtLeast, kVisible))};
  finding.remarks = {
      "The control is a PMNet of the same size and the same batches whose memory recurs in the evaluation but did not "
      "in training: it must be worse, or what is measured does not depend on the memory at all."};
  std::vector<LineChart> charts = eval_charts(all.pooled);
  const char* files[] = {"position.svg", "cumulative.svg", "difference.svg"};
  for (size_t i = 0; i < 3; ++i) {
    charts[i].markers = {{static_cast<double>(all.settings.context), "trained"}};
    write_chart(charts[i], (folder / files[i]).string());
  }
  finding.pictures = {{files[0], "Bits per byte by position; bands are 95% intervals over documents and seeds."},
                      {files[1], "The same up to a position."},
                      {files[2], "How much more than PMNet the others need."}};
  finding.tables = {{"All documents and seeds together.", model_table(all.pooled)},
                    {"Bits per byte by octave of positions.", octave_table(all.pooled)}};
  return finding;
}

Finding ablations(const Comparison& all) {
  Finding finding;
  finding.heading = "A sliding window alone";
  finding.claim =
      "Trained without memory recurrence, the same network is comparable to PMNet at this scale, while switching the "
      "recurrence on only for the evaluation makes it worse (the paper's simplicity bias).";
  const auto everywhere = [&](CompareCurve curve, CompareCurve base, Bound bound, double threshold) {
    return all.difference("all positions", curve, base, {1, 0}, bound, threshold);
  };
  finding.checks = {everywhere(kNeither, kPmnet, Bound::kAtMost, kComparable),
                    everywhere(kNeither, kPmnet, Bound::kAtLeast, -kComparable),
                    everywhere(kUntrainedMemory, kPmnet, Bound::kAtLeast, 0),
                    control(everywhere(kUntrainedMemory, kNeither, Bound::kAtLeast, 0))};
  finding.remarks = {fmt::format(
      "Comparable means within {} bits per byte. The control: a memory that was never trained must not help.",
      kComparable)};
  return finding;
}

Finding beyond(const Comparison& all) {
  const int64_t limit = all.attention_limit(), far = kFar * all.settings.context;
  Finding finding;
  finding.heading = "Far beyond the trained length";
  finding.claim = "PMNet reads past the length it was trained on without getting worse; the Transformer does not.";
  finding.checks = {all.drift(kPmnet, 0, Bound::kAtMost, kComparable)};
  if (limit > far) {
    finding.checks.push_back(
        all.difference("positions past " + counted(far), kTransformer, kPmnet, {far + 1, limit}, Bound::kAtLeast, 0));
    finding.checks.push_back(control(all.drift(kTransformer, limit, Bound::kAtLeast, kComparable)));
  }
  finding.remarks = {fmt::format("The Transformer keeps everything it has read, so it reads only the first {} bytes.",
                                 counted(limit))};
  return finding;
}

Finding trainings(const Comparison& all, const Results& results, const fs::path& folder) {
  Table table({"model", "seed", "parameters", "more than PMNet", "steps", "best step", "held-out bits per byte",
               "largest norm", "batches"});
  bool same_batches = true;
  const auto reference = static_cast<double>(parameter_count(all.candidates[kPmnet].config));
  for (int64_t seed = 1; seed <= all.settings.seeds; ++seed)
    for (const CandidateSpec& candidate : all.candidates) {
      if (!candidate.trains()) continue;
      const std::string part = CompareSettings::train_part(candidate.training, seed);
      const json& result = results.at(part);
      const auto parameters = static_cast<double>(parameter_count(candidate.config));
      same_batches = same_batches &&
                     result.at("batch_hash") == results.at(CompareSettings::train_part("pmnet", seed)).at("batch_hash");
      table.add_row({candidate.name, std::to_string(seed), counted(static_cast<int64_t>(parameters)),
                     fmt::format("{:+.2f}%", 100 * (parameters / reference - 1)), result.at("steps").dump(),
                     result.at("best_step").dump(), fmt::format("{:.4f}", -number_of(result.at("best_score"))),
                     fmt::format("{:.3g}", number_of(result.at("largest_norm"))), result.at("batch_hash")});
    }
  std::vector<SeedCurves> models;
  for (size_t c = 0; c < all.candidates.size(); ++c) {
    const CandidateSpec& candidate = all.candidates[c];
    if (!candidate.trains()) continue;
    SeedCurves& model = models.emplace_back(SeedCurves{candidate.title, static_cast<int>(c), {}});
    for (int64_t seed = 1; seed <= all.settings.seeds; ++seed)
      model.folders.push_back(folder / "parts" / folder_name(CompareSettings::train_part(candidate.training, seed)));
  }
  write_charts(training_charts(models, {{"val/bpb", "Held-out text", "bits per byte"},
                                        {"train/grad_norm", "Gradient norm", "norm", Scale::kLog10}}),
               (folder / "training.svg").string());
  Finding finding;
  finding.heading = "Trainings";
  finding.pictures = {{"training.svg", fmt::format("Bits per byte of held-out text and gradient norm during "
                                                   "training. {}",
                                                   kSeedBandCaption)}};
  finding.tables = {{"Parameters agree within 2%.", table}};
  // A training that diverged has seen fewer batches; its table row says so.
  finding.remarks = {same_batches ? "All models of a seed were trained on byte-identical batches: the hashes of all "
                                    "their batches in order are equal."
                                  : "NOT all models of a seed were trained on the same batches: see the steps and "
                                    "hashes."};
  return finding;
}

std::vector<std::string> protocol(const CompareSettings& settings) {
  return {
      fmt::format(
          "Four models are trained from random weights on {} bytes each, {} samples of {} bytes per step, AdamW "
          "with a cosine schedule, on {}. Every training keeps the weights that did best on held-out text.",
          counted(static_cast<int64_t>(settings.trained_bytes())), settings.train.batch, settings.context,
          settings.text.empty() ? "synthetic stories, whose endings need facts from their beginnings"
                                : "the given texts"),
      "No Recurrence: PMNet, its memory switched off in the evaluation only. No Memory / No Recurrence: switched off "
      "in both, a pure sliding window with the same parameters. No Memory / Recurrence: off in training, on in the "
      "evaluation.",
      "Evaluation: " + protocol_of({}, settings.books.limits()) + ".",
      settings.seeds > 1 ? "Intervals of the checks are over seeds (paired: all models of a seed see the same batches)."
                         : "One seed: intervals of the checks are over documents and say nothing about other seeds."};
}

}  // namespace

Report CompareExperiment::report(const Results& results, const fs::path& folder) {
  Comparison all(settings_);
  for (int64_t seed = 1; seed <= settings_.seeds; ++seed)
    all.add(load_scores(results.at(CompareSettings::evaluate_part(seed))));
  write_file_atomically(folder / "curves.csv", curve_table(all.pooled).csv());
  return {"Controlled comparison",
          protocol(settings_),
          {against_baselines(all, folder), ablations(all), beyond(all), trainings(all, results, folder)}};
}

}  // namespace pmnet
