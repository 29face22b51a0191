#include "eval/eval_report.h"

#include <fmt/format.h>

#include <cmath>

#include "base/atomic_folder.h"
#include "base/format.h"
#include "base/version.h"

namespace pmnet {

namespace {

struct NamedCurve {
  const char* name;
  CurveKind kind;
};
constexpr NamedCurve kCurves[] = {
    {"octaves", CurveKind::kOctaves}, {"windows", CurveKind::kWindows}, {"cumulative", CurveKind::kCumulative}};

std::string positions_text(const PositionPoint& point) {
  return fmt::format("{} to {}", format_count(static_cast<uint64_t>(point.first)),
                     format_count(static_cast<uint64_t>(point.last)));
}

std::string number_or_empty(double value) { return std::isfinite(value) ? fmt::format("{:.6f}", value) : ""; }

double bits_per_byte(const PositionSums& sums) {
  return sums.count() > 0 ? sums.bits() / static_cast<double>(sums.count()) : std::nan("");
}

nlohmann::ordered_json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nullptr;
}

// "46.6", "1.3e+05", or "-" where there are no words.
std::string perplexity_text(double value) {
  if (!std::isfinite(value)) return "-";
  return value < 1e4 ? fmt::format("{:.1f}", value) : fmt::format("{:.1e}", value);
}

}  // namespace

std::string protocol_of(const EvalSettings& settings, const DocumentLimits& limits) {
  std::string text = fmt::format(
      "each document is one sequence: BOS is fed and not scored, every byte is scored given all bytes before it, EOS "
      "is "
      "{}; passes of {} bytes",
      settings.score_eos ? "scored as one more byte of a whole document" : "not scored",
      format_count(static_cast<uint64_t>(settings.chunk)));
  if (limits.max_bytes > 0)
    text += fmt::format("; the first {} bytes of each document", format_count(static_cast<uint64_t>(limits.max_bytes)));
  if (limits.min_bytes > 0)
    text += fmt::format("; documents of at least {} bytes", format_count(static_cast<uint64_t>(limits.min_bytes)));
  if (limits.documents > 0)
    text += fmt::format("; the first {} documents", format_count(static_cast<uint64_t>(limits.documents)));
  if (settings.protocol == EvalProtocol::kAuthors)
    text +=
        fmt::format("; the authors' protocol: Mamba's state is cleared every {} bytes, a nat of PMNet is 1/0.693 bits",
                    format_count(static_cast<uint64_t>(kAuthorsPass)));
  return text + "; means over bytes, 95% intervals over documents (Student's t, the ratio linearised)";
}

std::string interval_text(const Interval& interval, int digits) {
  if (!std::isfinite(interval.low) || !std::isfinite(interval.high)) return "-";
  return fmt::format("[{:.{}f}, {:.{}f}]", interval.low, digits, interval.high, digits);
}

Table model_table(const Evaluation& evaluation) {
  const bool several = evaluation.labels.size() > 1;
  std::vector<std::string> headers = {"model", "bits per byte", "95% interval"};
  if (several) headers.insert(headers.end(), {"more than the first", "95% interval of that"});
  headers.insert(headers.end(), {"word perplexity", "bytes", "rate"});
  Table table(headers);
  for (size_t c = 0; c < evaluation.labels.size(); ++c) {
    const Interval mean = mean_bits(evaluation, c);
    std::vector<std::string> cells = {evaluation.labels[c], fmt::format("{:.4f}", mean.mean), interval_text(mean)};
    if (several) {
      const Interval excess = mean_bits(evaluation, c, 0);
      const bool comparable = c > 0 && std::isfinite(excess.mean);
      cells.push_back(comparable ? fmt::format("{:+.4f}", excess.mean) : "");
      cells.push_back(comparable ? interval_text(excess) : "");
    }
    const auto bytes = static_cast<double>(evaluation.scored(c));
    cells.push_back(perplexity_text(evaluation.word_perplexity(c)));
    cells.push_back(format_count(static_cast<uint64_t>(bytes)));
    cells.push_back(evaluation.seconds[c] > 0 ? format_byte_rate(bytes / evaluation.seconds[c]) : "");
    table.add_row(cells);
  }
  return table;
}

Table octave_table(const Evaluation& evaluation) {
  std::vector<std::string> headers = {"position", "bytes"};
  std::vector<PositionCurve> curves;
  size_t longest = 0;  // a candidate with a limit has fewer points than the others
  for (size_t c = 0; c < evaluation.labels.size(); ++c) {
    headers.push_back(evaluation.labels[c]);
    curves.push_back(position_curve(evaluation, CurveKind::kOctaves, c));
    if (curves[c].size() > curves[longest].size()) longest = c;
  }
  Table table(headers);
  for (size_t k = 0; !curves.empty() && k < curves[longest].size(); ++k) {
    const PositionPoint& point = curves[longest][k];
    std::vector<std::string> cells = {positions_text(point), format_count(static_cast<uint64_t>(point.bytes))};
    for (const PositionCurve& curve : curves)
      cells.push_back(k < curve.size() ? fmt::format("{:.4f}", curve[k].bits_per_byte.mean) : "");
    table.add_row(cells);
  }
  return table;
}

Table document_table(const Evaluation& evaluation) {
  std::vector<std::string> headers = {"document", "bytes"};
  for (const std::string& label : evaluation.labels) headers.push_back(label);
  Table table(headers);
  for (const DocumentScore& document : evaluation.documents) {
    std::vector<std::string> cells = {document.name, format_count(static_cast<uint64_t>(document.bytes))};
    for (const PositionSums& sums : document.scores) cells.push_back(fmt::format("{:.4f}", bits_per_byte(sums)));
    table.add_row(cells);
  }
  return table;
}

Table curve_table(const Evaluation& evaluation) {
  Table table({"model", "curve", "first", "last", "bytes", "documents", "bits_per_byte", "low", "high"});
  for (size_t c = 0; c < evaluation.labels.size(); ++c)
    for (const NamedCurve& named : kCurves)
      for (const PositionPoint& point : position_curve(evaluation, named.kind, c)) {
        const Interval& bits = point.bits_per_byte;
        table.add_row({evaluation.labels[c], named.name, std::to_string(point.first), std::to_string(point.last),
                       std::to_string(point.bytes), std::to_string(bits.count), number_or_empty(bits.mean),
                       number_or_empty(bits.low), number_or_empty(bits.high)});
      }
  return table;
}

nlohmann::ordered_json to_json(const Interval& interval) {
  return {{"mean", number_or_null(interval.mean)},
          {"low", number_or_null(interval.low)},
          {"high", number_or_null(interval.high)},
          {"documents", interval.count}};
}

nlohmann::ordered_json to_json(const PositionCurve& curve) {
  auto points = nlohmann::ordered_json::array();
  for (const PositionPoint& point : curve)
    points.push_back({{"first", point.first},
                      {"last", point.last},
                      {"bytes", point.bytes},
                      {"bits_per_byte", to_json(point.bits_per_byte)}});
  return points;
}

nlohmann::ordered_json to_json(const ThroughputCurve& curve) {
  auto points = nlohmann::ordered_json::array();
  for (const ThroughputPoint& point : curve.points())
    points.push_back({{"first", point.first},
                      {"bytes", point.bytes},
                      {"seconds", point.seconds},
                      {"fastest_seconds_per_byte", point.fastest},
                      {"state_bytes", point.state_bytes},
                      {"resident_bytes", point.resident_bytes}});
  return points;
}

nlohmann::ordered_json to_json(const Evaluation& evaluation) {
  nlohmann::ordered_json json{
      {"stopped", evaluation.stopped}, {"words", evaluation.words()}, {"models", nlohmann::ordered_json::array()}};
  for (size_t c = 0; c < evaluation.labels.size(); ++c) {
    nlohmann::ordered_json model{{"label", evaluation.labels[c]},
                                 {"bytes", evaluation.scored(c)},
                                 {"seconds", evaluation.seconds[c]},
                                 {"bits_per_byte", to_json(mean_bits(evaluation, c))},
                                 {"word_perplexity", number_or_null(evaluation.word_perplexity(c))}};
    if (c > 0) model["more_than_the_first"] = to_json(mean_bits(evaluation, c, 0));
    for (const NamedCurve& named : kCurves) model[named.name] = to_json(position_curve(evaluation, named.kind, c));
    model["throughput"] = to_json(evaluation.throughput[c]);
    model["documents"] = nlohmann::ordered_json::array();
    for (const DocumentScore& document : evaluation.documents)
      model["documents"].push_back({{"name", document.name},
                                    {"bytes", document.scores[c].count()},
                                    {"complete", document.complete},
                                    {"bits", document.scores[c].bits()}});
    json["models"].push_back(model);
  }
  return json;
}

std::string eval_summary(const Evaluation& evaluation, const DocumentQueue& queue, const std::string& protocol,
                         bool per_document) {
  std::string text = fmt::format(
      "protocol  {}\ntexts     {} documents, {}{}{}\n", protocol, format_count(evaluation.documents.size()),
      format_bytes(static_cast<uint64_t>(evaluation.bytes())),
      queue.too_short() > 0 ? fmt::format("; {} too short", format_count(static_cast<uint64_t>(queue.too_short())))
                            : "",
      evaluation.stopped ? "; STOPPED before the end, these are the results so far" : "");
  for (const auto& [reason, skip] : queue.skips())
    text += fmt::format("skipped   {} x {}, first: {}\n", format_count(skip.count), reason, skip.first);
  if (evaluation.marker_bytes > 0)
    text += fmt::format("note      {} bytes of the texts are BOS or EOS to one of the models\n",
                        format_count(static_cast<uint64_t>(evaluation.marker_bytes)));
  if (evaluation.documents.empty()) return text;
  text += fmt::format("\n{}\n{}", model_table(evaluation).text(), octave_table(evaluation).text());
  return per_document ? text + "\n" + document_table(evaluation).text() : text;
}

void write_files(const EvalFiles& files, const Evaluation& evaluation, const std::string& protocol) {
  if (evaluation.documents.empty()) return;
  if (!files.json.empty()) {
    nlohmann::ordered_json json{{"program", "pmnet " + version()}, {"protocol", protocol}};
    json.update(to_json(evaluation));
    write_file_atomically(files.json, json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  if (!files.csv.empty()) write_file_atomically(files.csv, curve_table(evaluation).csv());
  if (!files.plot.empty()) write_charts(eval_charts(evaluation), files.plot);
}

Series series_of(const std::string& name, const PositionCurve& curve) {
  Series series{.name = name, .x = {}, .y = {}, .low = {}, .high = {}};
  for (const PositionPoint& point : curve) {
    const Interval& bits = point.bits_per_byte;
    const bool bounded = std::isfinite(bits.low) && std::isfinite(bits.high);
    series.x.push_back(static_cast<double>(point.last));
    series.y.push_back(bits.mean);
    series.low.push_back(bounded ? bits.low : bits.mean);
    series.high.push_back(bounded ? bits.high : bits.mean);
  }
  return series;
}

std::vector<LineChart> eval_charts(const Evaluation& evaluation) {
  const auto chart = [](const std::string& title, const std::string& y_label) {
    return LineChart{.title = title,
                     .x_label = "position, bytes",
                     .y_label = y_label,
                     .x_scale = Scale::kLog2,
                     .y_scale = Scale::kLinear,
                     .series = {},
                     .markers = {}};
  };
  LineChart here = chart("Bits per byte by position", "bits per byte");
  LineChart so_far = chart("Bits per byte up to a position", "bits per byte");
  LineChart behind = chart("More than " + evaluation.labels.at(0), "bits per byte");
  for (size_t c = 0; c < evaluation.labels.size(); ++c) {
    here.series.push_back(series_of(evaluation.labels[c], position_curve(evaluation, CurveKind::kLogWindows, c)));
    so_far.series.push_back(series_of(evaluation.labels[c], position_curve(evaluation, CurveKind::kCumulative, c)));
    if (c == 0) continue;
    Series& more = behind.series.emplace_back(
        series_of(evaluation.labels[c], position_curve(evaluation, CurveKind::kLogWindows, c, 0)));
    more.colour = static_cast<int>(c);  // that of the charts above, where the first model has one too
  }
  std::vector<LineChart> charts = {here, so_far};
  if (!behind.series.empty()) charts.push_back(behind);
  return charts;
}

}  // namespace pmnet
