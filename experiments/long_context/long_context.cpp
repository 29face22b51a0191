// Long contexts (figure 1): bits per byte, time and memory against position, far beyond what the models were trained
// on.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/format.h"
#include "eval/eval_report.h"
#include "eval/score_files.h"
#include "experiments/compare/compare.h"
#include "experiments/framework/candidates.h"
#include "experiments/framework/texts.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kBookSeed = 3;      // of our own tales
constexpr double kStable = 0.05;       // bits per byte more than inside the trained length that still count as stable
constexpr double kDiverged = 0.5;      // and those that count as failure
constexpr double kSteadyTime = 1.05;   // time per byte late against early
constexpr double kSteadyState = 1.01;  // bytes of the state late against early

struct LongContextSettings : Settings {
  Recipe recipe;
  std::vector<std::string> models;
  BookSettings books;
  int64_t trained = 512;  // bytes of context that the models were trained on
  int64_t attention_limit = 16'384;
  int64_t chunk = 1024;

  explicit LongContextSettings(Recipe r) : recipe(r), trained(CompareSettings(r).context) {
    switch (recipe) {
      case Recipe::kPaper:
        books.bytes = 1'048'576, books.documents = 10, attention_limit = 65'536;
        break;
      case Recipe::kCpu:
        books.bytes = 524'288, books.documents = 4, attention_limit = 16'384;
        break;
      case Recipe::kSmoke:
        books.bytes = 4096, books.documents = 3, attention_limit = 1024, chunk = 128;
        break;
    }
  }

  void visit(const Visitor& visitor) override {
    visitor("models", &models, "LABEL=DIR of trained models; none: those of the comparison beside this experiment");
    books.visit(visitor, "text");
    visitor("trained", &trained, "Bytes of context that the models were trained on");
    visitor("attention_limit", &attention_limit, "Bytes of a document that a Transformer reads");
    visitor("chunk", &chunk, "Bytes per pass");
  }

  std::vector<std::string> problems() override {
    std::vector<std::string> found = books.problems("text");
    if (trained < 2) found.push_back(fmt::format("trained is {}; it must be above 1", trained));
    if (attention_limit < 1) found.push_back(fmt::format("attention_limit is {}; it must be above 0", attention_limit));
    if (chunk < 1) found.push_back(fmt::format("chunk is {}; it must be above 0", chunk));
    if (found.empty() && books.bytes < 4 * trained)
      found.push_back(
          fmt::format("bytes is {}, which is not far beyond the trained {}; it must be at least four times "
                      "as long",
                      books.bytes, trained));
    return found;
  }
};

// A model as it is read with.
struct Reader {
  std::string label;
  GivenModel model;
  MemorySwitches switches;
  int64_t limit = 0;
};

class LongContextExperiment : public Experiment {
 public:
  explicit LongContextExperiment(Recipe recipe) : settings_(recipe) {}
  Settings& settings() override { return settings_; }
  std::vector<Part> parts() override;
  Report report(const Results& results, const fs::path& folder) override;

 private:
  std::vector<Reader> make_readers() const;
  static std::string part_name(const Reader& reader) { return "read with " + reader.label; }
  // The first reader for which `is` holds.
  template <typename Is>
  std::optional<size_t> find(const Is& is) const {
    for (size_t r = 0; r < readers_.size(); ++r)
      if (is(readers_[r])) return r;
    return std::nullopt;
  }
  std::optional<size_t> pmnet() const {
    return find([](const Reader& r) { return has_memory(r.model.config) && !r.switches.recurrence; });
  }
  std::optional<size_t> no_recurrence() const {
    return find([](const Reader& r) { return has_memory(r.model.config) && r.switches.recurrence; });
  }
  std::optional<size_t> transformer() const {
    return find([](const Reader& r) { return std::holds_alternative<TransformerConfig>(r.model.config); });
  }
  Check drift(size_t reader, Bound bound, double threshold, bool control) const;
  // Late against early: time per byte, and the size of the state.
  Check time_ratio(size_t reader) const;
  Check state_ratio(size_t reader, Bound bound, double threshold, bool control) const;
  Finding stability(const fs::path& folder) const;
  Finding memory_helps() const;
  Finding cost(const fs::path& folder) const;

  LongContextSettings settings_;
  std::vector<Reader> readers_;  // once the settings are final
  Evaluation all_;               // of the report
};

std::vector<Reader> LongContextExperiment::make_readers() const {
  std::vector<Reader> list;
  for (const GivenModel& model : given_models(settings_.models, settings_.recipe)) {
    const bool attends = std::holds_alternative<TransformerConfig>(model.config);
    list.push_back({model.label, model, {}, attends ? settings_.attention_limit : 0});
    if (!has_memory(model.config)) continue;
    MemorySwitches off;
    off.recurrence = false;
    list.push_back({model.label + ", no recurrence", model, off, 0});
  }
  return list;
}

std::vector<Part> LongContextExperiment::parts() {
  std::vector<Part> parts = {books_part(settings_.books, kBookSeed)};
  readers_ = make_readers();
  for (const Reader& reader : readers_) {
    Part part;
    part.name = part_name(reader);
    part.cost = reading_cost(reader.model.config, settings_.books, reader.limit);
    part.run = [this, reader](PartContext& context) {
      const OpenedModel opened = open_given(reader.model, context);
      EvalSettings reading;
      reading.window = curve_window(settings_.trained);
      reading.chunk = settings_.chunk;  // one document at a time: time and memory are those of a single stream
      const std::vector<Candidate> models = {
          {reader.label, make_engine(opened.weights, reader.switches), reader.limit}};
      return json{{"model", opened.weights.hash()}, {"scores", score_books(models, settings_.books, reading, context)}};
    };
    parts.push_back(std::move(part));
  }
  return parts;
}

Check LongContextExperiment::drift(size_t reader, Bound bound, double threshold, bool control) const {
  const int64_t trained = settings_.trained;
  const int64_t limit = readers_[reader].limit;
  const int64_t end = limit > 0 ? std::min(limit, settings_.books.bytes) : settings_.books.bytes;
  Check check;
  check.what = fmt::format("{} from byte {} to {} less inside the trained {}, bits per byte", all_.labels[reader],
                           format_count(static_cast<uint64_t>(end / 2)), format_count(static_cast<uint64_t>(end)),
                           format_count(static_cast<uint64_t>(trained)));
  check.measured = change_between(all_, reader, {trained / 2 + 1, trained}, {end / 2 + 1, end});
  check.over = "documents";
  check.bound = bound;
  check.threshold = threshold;
  check.control = control;
  return check;
}

Check LongContextExperiment::time_ratio(size_t reader) const {
  const int64_t end = settings_.books.bytes;
  std::vector<double> early, late;
  for (const ThroughputPoint& point : all_.throughput[reader].points()) {
    if (point.first >= end / 32 && point.first < end / 4) early.push_back(point.fastest);
    if (point.first >= end / 2) late.push_back(point.fastest);
  }
  for (double& seconds : late) seconds /= mean_interval(early).mean;
  Check check;
  check.what = fmt::format("{}: time per byte in the second half against the first quarter", all_.labels[reader]);
  check.measured = mean_interval(late);
  check.over = "stretches of text";
  check.bound = Bound::kAtMost;
  check.threshold = kSteadyTime;
  return check;
}

Check LongContextExperiment::state_ratio(size_t reader, Bound bound, double threshold, bool control) const {
  const std::vector<ThroughputPoint>& points = all_.throughput[reader].points();
  const ThroughputPoint& early = points.at(points.size() / 16);
  const double ratio = static_cast<double>(points.back().state_bytes) / static_cast<double>(early.state_bytes);
  Check check;
  check.what = fmt::format("{}: bytes of the state at the end against byte {}", all_.labels[reader],
                           format_count(static_cast<uint64_t>(early.first)));
  check.measured = {ratio, ratio, ratio, 1};  // exact: a count, not a sample
  check.over = "reading";
  check.bound = bound;
  check.threshold = threshold;
  check.control = control;
  return check;
}

Finding LongContextExperiment::stability(const fs::path& folder) const {
  Finding finding;
  finding.heading = "Stable far beyond the trained length";
  finding.claim = fmt::format(
      "PMNet's bits per byte stay where they were over {} bytes, while a Transformer fails past the length it was "
      "trained on (the paper's figure 1: about 1.45 to 512k bytes; SmolLM diverges past 2k).",
      format_count(static_cast<uint64_t>(settings_.books.bytes)));
  if (pmnet()) finding.checks.push_back(drift(*pmnet(), Bound::kAtMost, kStable, false));
  if (transformer()) finding.checks.push_back(drift(*transformer(), Bound::kAtLeast, kDiverged, true));
  std::vector<LineChart> charts = eval_charts(all_);
  for (LineChart& chart : charts) chart.markers = {{static_cast<double>(settings_.trained), "trained"}};
  write_chart(charts[0], (folder / "position.svg").string());
  write_chart(charts[1], (folder / "cumulative.svg").string());
  finding.pictures = {{"position.svg", "Bits per byte by position; bands are 95% intervals over documents."},
                      {"cumulative.svg", "The same up to a position."}};
  finding.tables = {{"", model_table(all_)}, {"Bits per byte by octave of positions.", octave_table(all_)}};
  finding.remarks = {
      fmt::format("A Transformer keeps everything it has read and its time grows with the square of the "
                  "length, so it reads only the first {} bytes of each document.",
                  format_count(static_cast<uint64_t>(settings_.attention_limit)))};
  return finding;
}

Finding LongContextExperiment::memory_helps() const {
  Finding finding;
  finding.heading = "The memory helps at every position";
  finding.claim =
      "With its memory switched off for the evaluation, PMNet needs more bits at all positions (the paper: 1.50 "
      "against "
      "1.45).";
  if (!pmnet() || !no_recurrence()) return finding;
  Check overall;
  overall.what = "no recurrence less PMNet over all positions, bits per byte";
  overall.measured = mean_bits(all_, *no_recurrence(), *pmnet());
  overall.over = "documents";
  finding.checks.push_back(overall);
  // The octave where it helps least, of those that are past the trained length.
  const PositionCurve octaves = position_curve(all_, CurveKind::kOctaves, *no_recurrence(), *pmnet());
  const PositionPoint* least = nullptr;
  for (const PositionPoint& point : octaves)
    if (point.first > settings_.trained && (least == nullptr || point.bits_per_byte.mean < least->bits_per_byte.mean))
      least = &point;
  if (least != nullptr) {
    Check weakest = overall;
    weakest.what = fmt::format("the same where it is least past the trained length, bytes {} to {}",
                               format_count(static_cast<uint64_t>(least->first)),
                               format_count(static_cast<uint64_t>(least->last)));
    weakest.measured = least->bits_per_byte;
    finding.checks.push_back(weakest);
  }
  // Byte 1 is predicted from BOS alone: there is nothing to remember yet, and a difference there would be a mistake.
  Check nothing_yet = overall;
  nothing_yet.what = "the first byte, where there is nothing to remember yet: size of the difference, bits";
  nothing_yet.measured = octaves.front().bits_per_byte;
  if (nothing_yet.measured.mean < 0) {
    const Interval before = nothing_yet.measured;
    nothing_yet.measured = {-before.mean, -before.high, -before.low, before.count};
  }
  nothing_yet.bound = Bound::kAtMost;
  nothing_yet.threshold = 1e-3;
  nothing_yet.control = true;
  finding.checks.push_back(nothing_yet);
  return finding;
}

Finding LongContextExperiment::cost(const fs::path& folder) const {
  Finding finding;
  finding.heading = "Linear time, constant memory";
  finding.claim = "Reading a byte costs PMNet the same time and the same memory wherever it is in the text.";
  if (pmnet()) {
    finding.checks.push_back(time_ratio(*pmnet()));
    finding.checks.push_back(state_ratio(*pmnet(), Bound::kAtMost, kSteadyState, false));
  }
  if (transformer()) finding.checks.push_back(state_ratio(*transformer(), Bound::kAtLeast, 2, true));
  LineChart time, state;
  time.title = "Time per 1,000 bytes";
  time.y_label = "seconds";
  state.title = "State of the stream";
  state.y_label = "bytes";
  Table table({"model", "bytes per second", "state at the end", "process memory early", "process memory at the end"});
  for (size_t r = 0; r < all_.labels.size(); ++r) {
    const std::vector<ThroughputPoint>& points = all_.throughput[r].points();
    Series seconds, bytes;
    seconds.name = bytes.name = all_.labels[r];
    for (const ThroughputPoint& point : points) {
      seconds.x.push_back(static_cast<double>(point.first + settings_.chunk));
      seconds.y.push_back(1000 * point.fastest);
      bytes.x.push_back(static_cast<double>(point.first + settings_.chunk));
      bytes.y.push_back(static_cast<double>(point.state_bytes));
    }
    time.series.push_back(seconds);
    state.series.push_back(bytes);
    table.add_row({all_.labels[r], format_si(static_cast<double>(all_.scored(r)) / all_.seconds[r]),
                   format_si(static_cast<double>(points.back().state_bytes)),
                   format_si(static_cast<double>(points.at(points.size() / 16).resident_bytes)),
                   format_si(static_cast<double>(points.back().resident_bytes))});
  }
  for (LineChart* chart : {&time, &state}) {
    chart->x_label = "position, bytes";
    chart->x_scale = Scale::kLog2;
    chart->y_scale = Scale::kLog10;
  }
  write_chart(time, (folder / "time.svg").string());
  write_chart(state, (folder / "state.svg").string());
  finding.pictures = {{"time.svg",
                       "Wall-clock time against position, one stream at a time: the fastest of the documents, "
                       "disturbed least by other programs."},
                      {"state.svg", "What a stream carries along."}};
  finding.tables = {{"Early is a sixteenth of the way; process memory holds everything, the model included.", table}};
  return finding;
}

Report LongContextExperiment::report(const Results& results, const fs::path& folder) {
  std::vector<Evaluation> evaluations;
  Table hashes({"model", "weights"});
  for (const Reader& reader : readers_) {
    const json& result = results.at(part_name(reader));
    evaluations.push_back(load_scores(result.at("scores")));
    hashes.add_row({reader.label, result.at("model")});
  }
  all_ = side_by_side(evaluations);
  write_file_atomically(folder / "curves.csv", curve_table(all_).csv());
  Table pace({"model", "first", "bytes", "seconds", "fastest_seconds_per_byte", "state_bytes", "resident_bytes"});
  for (size_t r = 0; r < all_.labels.size(); ++r)
    for (const ThroughputPoint& point : all_.throughput[r].points())
      pace.add_row({all_.labels[r], std::to_string(point.first), std::to_string(point.bytes),
                    fmt::format("{:.6f}", point.seconds), fmt::format("{:.3e}", point.fastest),
                    std::to_string(point.state_bytes), std::to_string(point.resident_bytes)});
  write_file_atomically(folder / "pace.csv", pace.csv());
  Report report;
  report.title = "Long contexts";
  EvalSettings reading;
  reading.chunk = settings_.chunk;
  report.protocol = {"Evaluation: " + protocol_of(reading, settings_.books.limits()) + ".",
                     fmt::format("Texts: {}. The models are said to be trained on {} bytes of context.",
                                 settings_.books.text.empty() ? "tales of our own grammar" : "those given",
                                 format_count(static_cast<uint64_t>(settings_.trained)))};
  report.findings = {stability(folder), memory_helps(), cost(folder)};
  report.findings.back().tables.push_back({"Weights that were read with.", hashes});
  return report;
}

}  // namespace

std::unique_ptr<Experiment> make_long_context_experiment(Recipe recipe) {
  return std::make_unique<LongContextExperiment>(recipe);
}

}  // namespace pmnet
