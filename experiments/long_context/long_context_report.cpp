#include <fmt/format.h>

#include <algorithm>

#include "base/atomic_folder.h"
#include "base/format.h"
#include "eval/eval_report.h"
#include "eval/score_files.h"
#include "experiments/long_context/long_context.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;

constexpr double kStable = 0.05;       // bits per byte more than inside the trained length that still count as stable
constexpr double kDiverged = 0.5;      // and those that count as failure
constexpr double kSteadyTime = 1.05;   // time per byte late against early
constexpr double kSteadyState = 1.01;  // bytes of the state late against early
constexpr double kNothing = 1e-3;      // bits

std::string counted(int64_t bytes) { return format_count(static_cast<uint64_t>(bytes)); }

// What the report is made from: all candidates side by side. The roles are absent where no candidate has them.
struct Reading {
  const LongContextSettings& settings;
  const fs::path& folder;
  std::vector<CandidateSpec> candidates;
  Evaluation all;
  std::optional<size_t> pmnet, no_recurrence, transformer;

  void find_roles() {
    for (size_t i = candidates.size(); i-- > 0;) {  // the first of each
      if (candidates[i].remembers()) pmnet = i;
      if (candidates[i].is_window_control()) no_recurrence = i;
      if (candidates[i].attends()) transformer = i;
    }
  }

  Check drift(size_t reader, Bound bound, double threshold) const {
    const int64_t trained = settings.trained, limit = candidates[reader].limit;
    const int64_t end = limit > 0 ? std::min(limit, settings.books.bytes) : settings.books.bytes;
    return {fmt::format("{} from byte {} to {} less inside the trained {}, bits per byte", all.labels[reader],
                        counted(end / 2), counted(end), counted(trained)),
            change_between(all, reader, {trained / 2 + 1, trained}, {end / 2 + 1, end}), bound, threshold, "documents"};
  }

  // Late against early: time per byte, and the size of the state.
  Check time_ratio(size_t reader) const {
    const int64_t end = settings.books.bytes;
    std::vector<double> early, late;
    for (const ThroughputPoint& point : all.throughput[reader].points()) {
      if (point.first >= end / 32 && point.first < end / 4) early.push_back(point.fastest);
      if (point.first >= end / 2) late.push_back(point.fastest);
    }
    for (double& seconds : late) seconds /= mean_interval(early).mean;
    return at_most(kSteadyTime, all.labels[reader] + ": time per byte in the second half against the first quarter",
                   mean_interval(late), "intervals of text");
  }

  Check state_ratio(size_t reader, Bound bound, double threshold) const {
    const std::vector<ThroughputPoint>& points = all.throughput[reader].points();
    const ThroughputPoint& early = points.at(points.size() / 16);
    const double ratio = static_cast<double>(points.back().state_bytes) / static_cast<double>(early.state_bytes);
    return {fmt::format("{}: bytes of the state at the end against byte {}", all.labels[reader], counted(early.first)),
            {ratio, ratio, ratio, 1},  // exact: a count, not a sample
            bound,
            threshold,
            "reading"};
  }
};

Finding stability(const Reading& reading) {
  Finding finding;
  finding.heading = "Stable far beyond the trained length";
  finding.claim = fmt::format(
      "PMNet's bits per byte stay where they were over {} bytes, while a Transformer fails past the length it was "
      "trained on (the paper's figure 1: about 1.45 to 512k bytes; SmolLM diverges past 2k).",
      counted(reading.settings.books.bytes));
  if (reading.pmnet) finding.checks.push_back(reading.drift(*reading.pmnet, Bound::kAtMost, kStable));
  if (reading.transformer)
    finding.checks.push_back(control(reading.drift(*reading.transformer, Bound::kAtLeast, kDiverged)));
  std::vector<LineChart> charts = eval_charts(reading.all);
  for (LineChart& chart : charts) chart.markers = {{static_cast<double>(reading.settings.trained), "trained"}};
  write_chart(charts[0], (reading.folder / "position.svg").string());
  write_chart(charts[1], (reading.folder / "cumulative.svg").string());
  finding.pictures = {{"position.svg", "Bits per byte by position; bands are 95% intervals over documents."},
                      {"cumulative.svg", "The same up to a position."}};
  finding.tables = {{"", model_table(reading.all)},
                    {"Bits per byte by octave of positions.", octave_table(reading.all)}};
  finding.remarks = {fmt::format(
      "A Transformer keeps everything it has read and its time grows with the square of the length, so it reads only "
      "the first {} bytes of each document.",
      counted(reading.settings.attention_limit))};
  return finding;
}

// Byte 1 is predicted from BOS alone: there is nothing to remember yet, and a difference there would be a mistake.
Check nothing_to_remember(const PositionPoint& first) {
  Interval size = first.bits_per_byte;
  if (size.mean < 0) size = {-size.mean, -size.high, -size.low, size.count};
  return control(at_most(kNothing,
                         "the first byte, where there is nothing to remember yet: size of the difference, bits", size,
                         "documents"));
}

Finding memory_helps(const Reading& reading) {
  Finding finding;
  finding.heading = "The memory helps at every position";
  finding.claim =
      "With its memory switched off for the evaluation, PMNet needs more bits at all positions (the paper: 1.50 "
      "against 1.45).";
  if (!reading.pmnet || !reading.no_recurrence) return finding;
  finding.checks = {at_least(0, "no recurrence less PMNet over all positions, bits per byte",
                             mean_bits(reading.all, *reading.no_recurrence, reading.pmnet), "documents")};
  // The octave where it helps least, of those that are past the trained length; the last may hold a few bytes only.
  const PositionCurve octaves = position_curve(reading.all, CurveKind::kOctaves, *reading.no_recurrence, reading.pmnet);
  const PositionPoint* least = nullptr;
  for (const PositionPoint& point : octaves) {
    const bool mostly_read = 2 * (point.last - point.first + 1) > point.first;
    if (point.first > reading.settings.trained && mostly_read &&
        (least == nullptr || point.bits_per_byte.mean < least->bits_per_byte.mean))
      least = &point;
  }
  if (least != nullptr)
    finding.checks.push_back(at_least(0,
                                      fmt::format("the same where it is least past the trained length, bytes {} to {}",
                                                  counted(least->first), counted(least->last)),
                                      least->bits_per_byte, "documents"));
  finding.checks.push_back(nothing_to_remember(octaves.front()));
  return finding;
}

// A line per candidate over the positions.
template <typename Value>
LineChart over_positions(const Reading& reading, const char* title, const char* y_label, const Value& value) {
  LineChart chart;
  chart.title = title;
  chart.x_label = "position, bytes";
  chart.y_label = y_label;
  chart.x_scale = Scale::kLog2;
  chart.y_scale = Scale::kLog10;
  for (size_t r = 0; r < reading.all.labels.size(); ++r) {
    Series& series = chart.series.emplace_back();
    series.name = reading.all.labels[r];
    for (const ThroughputPoint& point : reading.all.throughput[r].points()) {
      series.x.push_back(static_cast<double>(point.first + reading.settings.chunk));
      series.y.push_back(value(point));
    }
  }
  return chart;
}

Finding cost(const Reading& reading) {
  Finding finding;
  finding.heading = "Linear time, constant memory";
  finding.claim = "Reading a byte costs PMNet the same time and the same memory wherever it is in the text.";
  if (reading.pmnet)
    finding.checks = {reading.time_ratio(*reading.pmnet),
                      reading.state_ratio(*reading.pmnet, Bound::kAtMost, kSteadyState)};
  if (reading.transformer)
    finding.checks.push_back(control(reading.state_ratio(*reading.transformer, Bound::kAtLeast, 2)));
  write_chart(over_positions(reading, "Time per 1,000 bytes", "seconds",
                             [](const ThroughputPoint& point) { return 1000 * point.fastest; }),
              (reading.folder / "time.svg").string());
  write_chart(over_positions(reading, "State of the sequence", "bytes",
                             [](const ThroughputPoint& point) { return static_cast<double>(point.state_bytes); }),
              (reading.folder / "state.svg").string());
  finding.pictures = {{"time.svg",
                       "Wall-clock time against position, one document at a time: the fastest of the documents, "
                       "disturbed least by other programs."},
                      {"state.svg", "What a sequence carries along."}};
  Table table({"model", "bytes per second", "state at the end", "process memory early", "process memory at the end"});
  for (size_t r = 0; r < reading.all.labels.size(); ++r) {
    const std::vector<ThroughputPoint>& points = reading.all.throughput[r].points();
    const auto size = [](int64_t bytes) { return format_si(static_cast<double>(bytes)); };
    table.add_row({reading.all.labels[r],
                   format_si(static_cast<double>(reading.all.scored(r)) / reading.all.seconds[r]),
                   size(points.back().state_bytes), size(points.at(points.size() / 16).resident_bytes),
                   size(points.back().resident_bytes)});
  }
  finding.tables = {{"Early is a sixteenth of the way; process memory holds everything, the model included.", table}};
  return finding;
}

Table throughput_table(const Evaluation& all) {
  Table table({"model", "first", "bytes", "seconds", "fastest_seconds_per_byte", "state_bytes", "resident_bytes"});
  for (size_t r = 0; r < all.labels.size(); ++r)
    for (const ThroughputPoint& point : all.throughput[r].points())
      table.add_row({all.labels[r], std::to_string(point.first), std::to_string(point.bytes),
                     fmt::format("{:.6f}", point.seconds), fmt::format("{:.3e}", point.fastest),
                     std::to_string(point.state_bytes), std::to_string(point.resident_bytes)});
  return table;
}

std::vector<std::string> protocol(const LongContextSettings& settings) {
  EvalSettings reading;
  reading.chunk = settings.chunk;
  reading.protocol = settings.protocol;
  return {"Evaluation: " + protocol_of(reading, settings.books.limits()) + ".",
          fmt::format("Texts: {}. The models are said to be trained on {} bytes of context.",
                      settings.books.text.empty() ? "synthetic stories" : "those given", counted(settings.trained))};
}

}  // namespace

Report LongContextExperiment::report(const Results& results, const fs::path& folder) {
  Reading reading{settings_, folder, settings_.candidates(), {}, {}, {}, {}};
  std::vector<Evaluation> evaluations;
  Table hashes({"model", "weights"});
  for (const CandidateSpec& candidate : reading.candidates) {
    const nlohmann::json& result = results.at(part_name(candidate));
    evaluations.push_back(load_scores(result.at("scores")));
    hashes.add_row({candidate.title, result.at("model")});
  }
  reading.all = side_by_side(evaluations);
  reading.find_roles();
  write_file_atomically(folder / "curves.csv", curve_table(reading.all).csv());
  write_file_atomically(folder / "throughput.csv", throughput_table(reading.all).csv());
  Report report{"Long contexts", protocol(settings_), {stability(reading), memory_helps(reading), cost(reading)}};
  report.findings.back().tables.push_back({"Weights that were read with.", hashes});
  return report;
}

}  // namespace pmnet
