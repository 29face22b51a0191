#include <fmt/format.h>

#include <algorithm>

#include "base/atomic_folder.h"
#include "base/format.h"
#include "eval/eval_report.h"
#include "experiments/framework/seeded_scores.h"
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
struct Reading : SeededScores {
  const LongContextSettings& settings;
  const fs::path& folder;
  std::vector<CandidateSpec> candidates;
  std::optional<size_t> pmnet, no_recurrence, transformer;

  Reading(const LongContextSettings& made_with, const fs::path& report_folder)
      : settings(made_with), folder(report_folder), candidates(made_with.candidates()) {
    find_roles();
  }

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
    return {fmt::format("{} from byte {} to {} less inside the trained {}, bits per byte", pooled.labels[reader],
                        counted(end / 2), counted(end), counted(trained)),
            over_seeds([&](const Evaluation& seed) {
              return change_between(seed, reader, {trained / 2 + 1, trained}, {end / 2 + 1, end});
            }),
            bound, threshold, over()};
  }

  // Late against early: time per byte, and the size of the state.
  Check time_ratio(size_t reader) const {
    const int64_t end = settings.books.bytes;
    std::vector<double> early, late;
    for (const ThroughputPoint& point : pooled.throughput[reader].points()) {
      if (point.first >= end / 32 && point.first < end / 4) early.push_back(point.fastest);
      if (point.first >= end / 2) late.push_back(point.fastest);
    }
    for (double& seconds : late) seconds /= mean_interval(early).mean;
    return at_most(kSteadyTime, pooled.labels[reader] + ": time per byte in the second half against the first quarter",
                   mean_interval(late), "intervals of text");
  }

  Check state_ratio(size_t reader, Bound bound, double threshold) const {
    const std::vector<ThroughputPoint>& points = pooled.throughput[reader].points();
    const ThroughputPoint& early = points.at(points.size() / 16);
    const double ratio = static_cast<double>(points.back().state_bytes) / static_cast<double>(early.state_bytes);
    return {
        fmt::format("{}: bytes of the state at the end against byte {}", pooled.labels[reader], counted(early.first)),
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
  std::vector<LineChart> charts = eval_charts(reading.pooled);
  for (LineChart& chart : charts) chart.markers = {{static_cast<double>(reading.settings.trained), "trained"}};
  write_chart(charts[0], (reading.folder / "position.svg").string());
  write_chart(charts[1], (reading.folder / "cumulative.svg").string());
  finding.pictures = {{"position.svg", "Bits per byte by position; bands are 95% intervals over documents and seeds."},
                      {"cumulative.svg", "The same up to a position."}};
  finding.tables = {{"", model_table(reading.pooled)},
                    {"Bits per byte by octave of positions.", octave_table(reading.pooled)}};
  finding.remarks = {fmt::format(
      "A Transformer keeps everything it has read and its time grows with the square of the length, so it reads only "
      "the first {} bytes of each document.",
      counted(reading.settings.attention_limit))};
  return finding;
}

// Byte 1 is predicted from BOS alone: there is nothing to remember yet, and a difference there would be a mistake.
Check nothing_to_remember(Interval size, const char* over) {
  if (size.mean < 0) size = {-size.mean, -size.high, -size.low, size.count};
  return control(at_most(
      kNothing, "the first byte, where there is nothing to remember yet: size of the difference, bits", size, over));
}

Finding memory_helps(const Reading& reading) {
  Finding finding;
  finding.heading = "The memory helps at every position";
  finding.claim =
      "With its memory switched off for the evaluation, PMNet needs more bits at all positions (the paper: 1.50 "
      "against 1.45).";
  if (!reading.pmnet || !reading.no_recurrence) return finding;
  const auto difference = [&](const Positions& positions) {
    return reading.over_seeds([&](const Evaluation& seed) {
      return mean_bits_between(seed, positions, *reading.no_recurrence, reading.pmnet);
    });
  };
  finding.checks = {
      at_least(0, "no recurrence less PMNet over all positions, bits per byte", difference({}), reading.over())};
  const auto octaves_of = [&](const Evaluation& evaluation) {
    return position_curve(evaluation, CurveKind::kOctaves, *reading.no_recurrence, reading.pmnet);
  };
  const auto in_octave = [&](size_t octave) {
    return reading.over_seeds([&](const Evaluation& seed) { return octaves_of(seed).at(octave).bits_per_byte; });
  };
  // The octave where it helps least, of those that are past the trained length; the last may hold a few bytes only.
  const PositionCurve octaves = octaves_of(reading.pooled);
  std::optional<size_t> least;
  for (size_t o = 0; o < octaves.size(); ++o) {
    const bool mostly_read = 2 * (octaves[o].last - octaves[o].first + 1) > octaves[o].first;
    if (octaves[o].first > reading.settings.trained && mostly_read &&
        (!least || octaves[o].bits_per_byte.mean < octaves[*least].bits_per_byte.mean))
      least = o;
  }
  if (least)
    finding.checks.push_back(at_least(0,
                                      fmt::format("the same where it is least past the trained length, bytes {} to {}",
                                                  counted(octaves[*least].first), counted(octaves[*least].last)),
                                      in_octave(*least), reading.over()));
  finding.checks.push_back(nothing_to_remember(in_octave(0), reading.over()));
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
  for (size_t r = 0; r < reading.pooled.labels.size(); ++r) {
    Series& series = chart.series.emplace_back();
    series.name = reading.pooled.labels[r];
    for (const ThroughputPoint& point : reading.pooled.throughput[r].points()) {
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
  for (size_t r = 0; r < reading.pooled.labels.size(); ++r) {
    const std::vector<ThroughputPoint>& points = reading.pooled.throughput[r].points();
    const auto size = [](int64_t bytes) { return format_si(static_cast<double>(bytes)); };
    table.add_row({reading.pooled.labels[r],
                   format_si(static_cast<double>(reading.pooled.scored(r)) / reading.pooled.seconds[r]),
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
  Reading reading(settings_, folder);
  Table hashes({"model", "seed", "weights"});
  for (int64_t seed = 1; seed <= settings_.seeds(); ++seed) {
    std::vector<Evaluation> evaluations;
    for (const CandidateSpec& candidate : reading.candidates) {
      const nlohmann::json& result = results.at(part_name(candidate, seed));
      evaluations.push_back(load_scores(result.at("scores")));
      hashes.add_row({candidate.title, std::to_string(seed), result.at("model")});
    }
    reading.add(side_by_side(evaluations));
  }
  write_file_atomically(folder / "curves.csv", curve_table(reading.pooled).csv());
  write_file_atomically(folder / "throughput.csv", throughput_table(reading.pooled).csv());
  Report report{"Long contexts", protocol(settings_), {stability(reading), memory_helps(reading), cost(reading)}};
  report.findings.back().tables.push_back({"Weights that were read with.", hashes});
  return report;
}

}  // namespace pmnet
