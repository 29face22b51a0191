// The anchors (figure 6): what it costs to read without the learned embeddings of the memory tree, and how the tree is
// used.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/format.h"
#include "eval/eval_report.h"
#include "eval/routing.h"
#include "eval/score_files.h"
#include "experiments/framework/candidates.h"
#include "experiments/framework/texts.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kBookSeed = 4;      // of our own tales
constexpr double kNegligible = 0.1;    // share of the harm of removing all that counts as none
constexpr double kLinear = 2;          // the two halves of a line differ by less than this factor
constexpr double kVisibleBits = 1e-3;  // per byte, that memory must be worth to be studied
constexpr const char* kReadPart = "read without embeddings";
constexpr const char* kRoutingPart = "routing";

enum VariantNumber : size_t { kNormal, kNoLeaf, kNoRoot, kNoEmbeddings, kNoRecurrence };
struct Variant {
  const char* label;
  MemorySwitches switches;
};
std::vector<Variant> variants() {
  return {{"Normal", {}},
          {"No Leaf", {.zero_embeddings = ZeroEmbeddings::kLeaf}},
          {"No Root", {.zero_embeddings = ZeroEmbeddings::kRoot}},
          {"No Embeddings", {.zero_embeddings = ZeroEmbeddings::kAll}},
          {"No Recurrence", {.recurrence = false}}};
}

struct AnchorsSettings : Settings {
  Recipe recipe;
  std::vector<std::string> models;
  BookSettings books;
  int64_t routing_bytes = 16'384;

  explicit AnchorsSettings(Recipe r) : recipe(r) {
    switch (recipe) {
      case Recipe::kPaper:
        books.bytes = 131'072, books.documents = 30;
        break;
      case Recipe::kCpu:
        books.bytes = 131'072, books.documents = 12;
        break;
      case Recipe::kSmoke:
        books.bytes = 2048, books.documents = 3, routing_bytes = 512;
        break;
    }
  }

  void visit(const Visitor& visitor) override {
    visitor("models", &models, "LABEL=DIR of one trained PMNet; none: that of the comparison beside this experiment");
    books.visit(visitor, "text");
    visitor("routing_bytes", &routing_bytes, "Bytes of each document whose routes are counted");
  }

  std::vector<std::string> problems() override {
    std::vector<std::string> found = books.problems("text");
    if (routing_bytes < 2) found.push_back(fmt::format("routing_bytes is {}; it must be above 1", routing_bytes));
    if (books.bytes < 4 * PositionSums::kFirstWindow)
      found.push_back(
          fmt::format("bytes is {}; a curve needs {} at least", books.bytes, 4 * PositionSums::kFirstWindow));
    if (books.documents < 2) found.push_back("documents is 1; bands over documents need two at least");
    return found;
  }

  GivenModel find_model() const {
    for (const GivenModel& model : given_models(models, recipe))
      if (has_memory(model.config)) return model;
    fail("anchors: none of the models is a PMNet with memory; give one with --model LABEL=DIR");
  }
};

class AnchorsExperiment : public Experiment {
 public:
  explicit AnchorsExperiment(Recipe recipe) : settings_(recipe) {}
  Settings& settings() override { return settings_; }
  std::vector<Part> parts() override;
  Report report(const Results& results, const fs::path& folder) override;

 private:
  json read(PartContext& context) const;
  json count_routes(PartContext& context) const;
  Finding excess(const Evaluation& evaluation, const fs::path& folder) const;
  Finding routing(const json& levels, const fs::path& folder) const;

  AnchorsSettings settings_;
  GivenModel model_;  // once the settings are final
};

std::vector<Part> AnchorsExperiment::parts() {
  model_ = settings_.find_model();
  Part reading, counting;
  reading.name = kReadPart;
  reading.cost = reading_cost(model_.config, settings_.books);
  reading.cost.bytes *= static_cast<double>(variants().size());
  reading.cost.flop *= static_cast<double>(variants().size());
  reading.run = [this](PartContext& context) { return read(context); };
  counting.name = kRoutingPart;
  counting.cost = reading_cost(model_.config, settings_.books, settings_.routing_bytes);
  counting.run = [this](PartContext& context) { return count_routes(context); };
  return {books_part(settings_.books, kBookSeed), reading, counting};
}

json AnchorsExperiment::read(PartContext& context) const {
  const OpenedModel opened = open_given(model_, context);
  std::vector<Candidate> models;
  for (const Variant& variant : variants())
    models.push_back({variant.label, make_engine(opened.weights, variant.switches), 0});
  EvalSettings reading;
  reading.rows = rows_for_threads(at::get_num_threads());
  return {{"model", opened.weights.hash()}, {"scores", score_books(models, settings_.books, reading, context)}};
}

json AnchorsExperiment::count_routes(PartContext& context) const {
  constexpr size_t kChunk = 1024;
  const OpenedModel opened = open_given(model_, context);
  DocumentLimits limits = settings_.books.limits();
  limits.max_bytes = std::min(limits.max_bytes, settings_.routing_bytes);
  ReadOptions read;
  read.text_field = settings_.books.text_field;
  DocumentQueue queue(book_files(settings_.books, context), read, limits);
  RoutingStatistics routing;
  double done = 0;
  while (std::optional<DocumentCursor> document = queue.next()) {
    Scorer scorer(opened.engine);
    routing.next_text();
    for (std::string bytes = document->read(kChunk); !bytes.empty(); bytes = document->read(kChunk)) {
      context.stop().throw_if_requested();
      scorer.score(bytes, {.after_pass = [&](const Trace& trace) { routing.add(trace); }});
      done += static_cast<double>(bytes.size());
      context.progress(done / static_cast<double>(limits.documents * limits.max_bytes), "counting routes");
    }
  }
  json levels = json::array();
  for (const LevelRouting& level : routing.levels())
    levels.push_back({{"tokens", level.tokens()}, {"entropy", level.entropy()}, {"change_rate", level.change_rate()}});
  return levels;
}

Check check_of(const std::string& what, const std::vector<double>& per_document, Bound bound, double threshold,
               bool control = false) {
  Check check;
  check.what = what;
  check.measured = mean_interval(per_document);
  check.over = "documents";
  check.bound = bound;
  check.threshold = threshold;
  check.control = control;
  return check;
}

// a * x + b * y, document by document.
std::vector<double> combine(double a, const std::vector<double>& x, double b, const std::vector<double>& y) {
  std::vector<double> sums;
  for (size_t i = 0; i < x.size(); ++i) sums.push_back(a * x[i] + b * y[i]);
  return sums;
}

Finding AnchorsExperiment::excess(const Evaluation& evaluation, const fs::path& folder) const {
  Finding finding;
  finding.heading = "Reading without the embeddings";
  finding.claim =
      "Removing all embeddings adds error linearly with position; removing the root's does much of that harm, "
      "removing the leaves' next to none (the paper's figure 6: about 68, 23 and 1 bits after 120k bytes).";
  LineChart chart{.title = "Excess over the whole model, so far",
                  .x_label = "position, bytes",
                  .y_label = "bits",
                  .x_scale = Scale::kLinear,
                  .y_scale = Scale::kLinear,
                  .series = {},
                  .markers = {}};
  Table csv({"variant", "position", "documents", "bits", "low", "high"});
  Table table({"variant", "bits per byte", "more than normal", "95% interval", "bits so far at the end",
               "95% interval of those"});
  std::vector<std::vector<ExcessPoint>> curves(variants().size());
  for (size_t v = 0; v < curves.size(); ++v) {
    curves[v] = cumulative_excess(evaluation, v, kNormal);
    Series series;
    series.name = variants()[v].label;
    for (const ExcessPoint& point : curves[v]) {
      const Interval bits = mean_interval(point.bits);
      series.x.push_back(static_cast<double>(point.position));
      series.y.push_back(bits.mean);
      series.low.push_back(bits.low);
      series.high.push_back(bits.high);
      csv.add_row({series.name, std::to_string(point.position), std::to_string(bits.count),
                   fmt::format("{:.6f}", bits.mean), fmt::format("{:.6f}", bits.low),
                   fmt::format("{:.6f}", bits.high)});
    }
    const Interval end = mean_interval(curves[v].back().bits);
    const Interval more = mean_bits(evaluation, v, kNormal);
    table.add_row({series.name, fmt::format("{:.4f}", mean_bits(evaluation, v).mean), fmt::format("{:+.6f}", more.mean),
                   interval_text(more, 6), fmt::format("{:.2f}", end.mean), interval_text(end, 2)});
    if (v != kNormal && v != kNoRecurrence) chart.series.push_back(std::move(series));
  }
  write_file_atomically(folder / "excess.csv", csv.csv());
  write_chart(chart, (folder / "excess.svg").string());
  finding.pictures = {{"excess.svg", "Mean over documents; bands are 95% intervals (Student's t) over documents."}};
  finding.tables = {{"No Recurrence is the control: the memory switched off altogether.", table}};

  const auto end_of = [&](size_t v) { return curves[v].back().bits; };
  const std::vector<double>& all = end_of(kNoEmbeddings);
  const std::vector<double>& half = curves[kNoEmbeddings].at(curves[kNoEmbeddings].size() / 2 - 1).bits;
  const std::vector<double> second_half = combine(1, all, -1, half);
  finding.checks = {check_of("bits that removing all embeddings adds", all, Bound::kAtLeast, 0),
                    check_of("those of removing all less those of removing the root's",
                             combine(1, all, -1, end_of(kNoRoot)), Bound::kAtLeast, 0),
                    check_of("those of removing the root's less those of removing the leaves'",
                             combine(1, end_of(kNoRoot), -1, end_of(kNoLeaf)), Bound::kAtLeast, 0),
                    check_of(fmt::format("those of removing the leaves' less {} of those of removing all", kNegligible),
                             combine(1, end_of(kNoLeaf), -kNegligible, all), Bound::kAtMost, 0),
                    check_of(fmt::format("linear: the second half's bits less 1/{} of the first half's", kLinear),
                             combine(1, second_half, -1 / kLinear, half), Bound::kAtLeast, 0),
                    check_of(fmt::format("linear: the second half's bits less {} times the first half's", kLinear),
                             combine(1, second_half, -kLinear, half), Bound::kAtMost, 0)};
  Check control;
  control.what = "switching the memory off altogether, bits per byte";
  control.measured = mean_bits(evaluation, kNoRecurrence, kNormal);
  control.over = "documents";
  control.threshold = kVisibleBits;
  control.control = true;
  finding.checks.push_back(control);
  finding.remarks = {"The control must do harm: where the memory is worth nothing, its embeddings cannot matter."};
  return finding;
}

Finding AnchorsExperiment::routing(const json& levels, const fs::path& folder) const {
  Finding finding;
  finding.heading = "How the tree is used";
  Table table({"level", "destinations", "used", "largest share", "entropy, bits", "at most", "route changes"});
  Table csv({"level", "destination", "tokens", "share"});
  LineChart chart{.title = "Tokens per destination, most used first",
                  .x_label = "rank",
                  .y_label = "share of the tokens",
                  .x_scale = Scale::kLog2,
                  .y_scale = Scale::kLog10,
                  .series = {},
                  .markers = {}};
  for (size_t level = 0; level < levels.size(); ++level) {
    std::vector<double> tokens = levels[level].at("tokens").get<std::vector<double>>();
    double all = 0, used = 0;
    for (const double count : tokens) {
      all += count;
      used += count > 0 ? 1 : 0;
    }
    for (size_t i = 0; i < tokens.size(); ++i)
      csv.add_row({std::to_string(level), std::to_string(i), fmt::format("{:.0f}", tokens[i]),
                   fmt::format("{:.6f}", tokens[i] / all)});
    std::sort(tokens.rbegin(), tokens.rend());
    Series series;
    series.name = fmt::format("level {}", level);
    for (size_t i = 0; i < tokens.size(); ++i) {
      series.x.push_back(static_cast<double>(i + 1));
      series.y.push_back(tokens[i] / all);
    }
    chart.series.push_back(series);
    table.add_row({std::to_string(level), std::to_string(tokens.size()), fmt::format("{:.0f}", used),
                   fmt::format("{:.4f}", tokens[0] / all),
                   fmt::format("{:.3f}", levels[level].at("entropy").get<double>()),
                   fmt::format("{:.3f}", std::log2(static_cast<double>(tokens.size()))),
                   fmt::format("{:.4f}", levels[level].at("change_rate").get<double>())});
  }
  write_file_atomically(folder / "routing.csv", csv.csv());
  write_chart(chart, (folder / "routing.svg").string());
  finding.pictures = {{"routing.svg", "A straight fall: few groups carry most; flat: all are used alike."}};
  finding.tables = {
      {"Destinations of a level are the groups of the next one, or the slots of the leaves. Route changes: "
       "share of the bytes that are sent elsewhere than the byte before.",
       table}};
  return finding;
}

Report AnchorsExperiment::report(const Results& results, const fs::path& folder) {
  const Evaluation evaluation = load_scores(results.at(kReadPart).at("scores"));
  Report report;
  report.title = "Anchors of the memory";
  report.protocol = {
      fmt::format("A trained PMNet (weights {}) reads {}, as it is and with memory embeddings set to zero for the "
                  "evaluation: of all levels, of the root, of the leaves.",
                  results.at(kReadPart).at("model").get<std::string>(),
                  settings_.books.text.empty() ? "tales of our own grammar" : "the given texts"),
      "Evaluation: " + protocol_of({}, settings_.books.limits()) + ".",
      fmt::format("Routes are counted over the first {} bytes of each document.",
                  format_count(static_cast<uint64_t>(settings_.routing_bytes)))};
  report.findings = {excess(evaluation, folder), routing(results.at(kRoutingPart), folder)};
  return report;
}

}  // namespace

std::unique_ptr<Experiment> make_anchors_experiment(Recipe recipe) {
  return std::make_unique<AnchorsExperiment>(recipe);
}

}  // namespace pmnet
