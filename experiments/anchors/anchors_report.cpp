#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/atomic_folder.h"
#include "base/format.h"
#include "eval/eval_report.h"
#include "experiments/anchors/anchors.h"
#include "experiments/framework/seeded_scores.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kNegligible = 0.1;    // share of the harm of removing all that counts as none
constexpr double kLinear = 2;          // the two halves of a line differ by less than this factor
constexpr size_t kMostPoints = 200;    // of a drawn curve
constexpr double kVisibleBits = 1e-3;  // per byte, that memory must be worth to be studied

using Curve = std::vector<ExcessPoint>;

// a * x + b * y, document by document, as an interval over documents.
Interval combine(double a, const std::vector<double>& x, double b, const std::vector<double>& y) {
  std::vector<double> sums;
  for (size_t i = 0; i < x.size(); ++i) sums.push_back(a * x[i] + b * y[i]);
  return mean_interval(sums);
}

std::vector<Check> excess_checks(const SeededScores& scores) {
  // a times the bits that removing some embeddings adds by a position, and b times those of others.
  struct Term {
    double factor;
    AnchorCurve curve;
    bool half = false;  // of the positions; else all
  };
  const auto sum_of = [&](const Term& one, const Term& other) {
    return scores.over_seeds([&](const Evaluation& seed) {
      const auto bits = [&](const Term& term) {
        const Curve curve = cumulative_excess(seed, term.curve, kNormal);
        return term.half ? curve.at(curve.size() / 2 - 1).bits : curve.back().bits;
      };
      return combine(one.factor, bits(one), other.factor, bits(other));
    });
  };
  const Term all{1, kNoEmbeddings}, nothing{0, kNormal};
  const char* over = scores.over();
  return {at_least(0, "bits that removing all embeddings adds", sum_of(all, nothing), over),
          at_least(0, "those of removing all less those of removing the root's", sum_of(all, {-1, kNoRoot}), over),
          at_least(0, "those of removing the root's less those of removing the leaves'",
                   sum_of({1, kNoRoot}, {-1, kNoLeaf}), over),
          at_most(0, fmt::format("those of removing the leaves' less {} of those of removing all", kNegligible),
                  sum_of({1, kNoLeaf}, {-kNegligible, kNoEmbeddings}), over),
          // The second half is all - half.
          at_least(0, fmt::format("linear: the second half's bits less 1/{} of the first half's", kLinear),
                   sum_of(all, {-1 - 1 / kLinear, kNoEmbeddings, true}), over),
          at_most(0, fmt::format("linear: the second half's bits less {} times the first half's", kLinear),
                  sum_of(all, {-1 - kLinear, kNoEmbeddings, true}), over),
          control(at_least(
              kVisibleBits, "switching the memory off altogether, bits per byte",
              scores.over_seeds([](const Evaluation& seed) { return mean_bits(seed, kMemoryOff, kNormal); }), over))};
}

Finding excess(const SeededScores& scores, const std::vector<CandidateSpec>& candidates, const fs::path& folder) {
  LineChart chart;
  chart.title = "Excess over the whole model, so far";
  chart.x_label = "position, bytes";
  chart.y_label = "bits";
  Table csv({"candidate", "position", "documents", "bits", "low", "high"});
  Table table({"candidate", "bits per byte", "more than normal", "95% interval", "bits so far at the end",
               "95% interval of those"});
  for (size_t c = 0; c < candidates.size(); ++c) {
    const Curve curve = cumulative_excess(scores.pooled, c, kNormal);
    const size_t step = std::max<size_t>(1, curve.size() / kMostPoints);  // drawn; the file has all
    Series series;
    series.name = candidates[c].title;
    for (size_t i = 0; i < curve.size(); ++i) {
      const ExcessPoint& point = curve[i];
      const Interval bits = mean_interval(point.bits);
      if ((i + 1) % step == 0) {
        series.x.push_back(static_cast<double>(point.position));
        series.y.push_back(bits.mean);
        series.low.push_back(bits.low);
        series.high.push_back(bits.high);
      }
      csv.add_row({series.name, std::to_string(point.position), std::to_string(bits.count),
                   fmt::format("{:.6f}", bits.mean), fmt::format("{:.6f}", bits.low),
                   fmt::format("{:.6f}", bits.high)});
    }
    const Interval end = mean_interval(curve.back().bits), more = mean_bits(scores.pooled, c, kNormal);
    table.add_row({series.name, fmt::format("{:.4f}", mean_bits(scores.pooled, c).mean),
                   fmt::format("{:+.6f}", more.mean), interval_text(more, 6), fmt::format("{:.2f}", end.mean),
                   interval_text(end, 2)});
    if (c != kNormal && c != kMemoryOff) chart.series.push_back(std::move(series));
  }
  write_file_atomically(folder / "excess.csv", csv.csv());
  write_chart(chart, (folder / "excess.svg").string());
  Finding finding;
  finding.heading = "Reading without the embeddings";
  finding.claim =
      "Removing all embeddings adds error linearly with position; removing the root's does much of that harm, "
      "removing the leaves' next to none (the paper's figure 6: about 68, 23 and 1 bits after 120k bytes).";
  finding.checks = excess_checks(scores);
  finding.pictures = {
      {"excess.svg", "Mean over documents and seeds; bands are 95% intervals (Student's t) over them."}};
  finding.tables = {{"No Recurrence is the control: the memory switched off altogether.", table}};
  finding.remarks = {"The control must do harm: where the memory is worth nothing, its embeddings cannot matter."};
  return finding;
}

Finding routing(const json& levels, const fs::path& folder) {
  Table table({"level", "destinations", "used", "largest share", "entropy, bits", "at most", "route changes"});
  Table csv({"level", "destination", "tokens", "share"});
  LineChart chart;
  chart.title = "Tokens per destination, most used first";
  chart.x_label = "rank";
  chart.y_label = "share of the tokens";
  chart.x_scale = Scale::kLog2;
  chart.y_scale = Scale::kLog10;
  for (size_t level = 0; level < levels.size(); ++level) {
    std::vector<double> tokens = levels[level].at("tokens").get<std::vector<double>>();
    const double all = std::accumulate(tokens.begin(), tokens.end(), 0.0);
    for (size_t i = 0; i < tokens.size(); ++i)
      csv.add_row({std::to_string(level), std::to_string(i), fmt::format("{:.0f}", tokens[i]),
                   fmt::format("{:.6f}", tokens[i] / all)});
    std::sort(tokens.rbegin(), tokens.rend());
    Series& series = chart.series.emplace_back();
    series.name = fmt::format("level {}", level);
    for (size_t i = 0; i < tokens.size(); ++i) {
      series.x.push_back(static_cast<double>(i + 1));
      series.y.push_back(tokens[i] / all);
    }
    const auto used = std::count_if(tokens.begin(), tokens.end(), [](double count) { return count > 0; });
    table.add_row({std::to_string(level), std::to_string(tokens.size()), std::to_string(used),
                   fmt::format("{:.4f}", tokens[0] / all),
                   fmt::format("{:.3f}", levels[level].at("entropy").get<double>()),
                   fmt::format("{:.3f}", std::log2(static_cast<double>(tokens.size()))),
                   fmt::format("{:.4f}", levels[level].at("change_rate").get<double>())});
  }
  write_file_atomically(folder / "routing.csv", csv.csv());
  write_chart(chart, (folder / "routing.svg").string());
  Finding finding;
  finding.heading = "How the tree is used";
  finding.pictures = {{"routing.svg", "A straight fall: few groups carry most; flat: all are used alike."}};
  finding.tables = {
      {"Destinations of a level are the groups of the next one, or the slots of the leaves. Route changes: "
       "share of the bytes that are routed elsewhere than the byte before.",
       table}};
  return finding;
}

std::vector<std::string> protocol(const AnchorsSettings& settings, const std::string& weights) {
  return {fmt::format("A trained PMNet (weights {}) reads {}, as it is and with memory embeddings set to zero for the "
                      "evaluation: of all levels, of the root, of the leaves.",
                      weights, settings.books.text.empty() ? "synthetic stories" : "the given texts"),
          "Evaluation: " + protocol_of({}, settings.books.limits()) + ".",
          fmt::format("Routes are counted over the first {} bytes of each document{}.",
                      format_count(static_cast<uint64_t>(settings.routing_bytes)),
                      settings.seeds() > 1 ? ", with the model of seed 1" : "")};
}

}  // namespace

Report AnchorsExperiment::report(const Results& results, const fs::path& folder) {
  SeededScores scores;
  std::vector<std::string> weights;
  for (int64_t seed = 1; seed <= settings_.seeds(); ++seed) {
    const json& read = results.at(read_part(seed));
    scores.add(load_scores(read.at("scores")));
    weights.push_back(read.at("model"));
  }
  return {"Anchors of the memory",
          protocol(settings_, fmt::format("{}", fmt::join(weights, ", "))),
          {excess(scores, settings_.candidates(), folder), routing(results.at(kRoutingPart), folder)}};
}

}  // namespace pmnet
