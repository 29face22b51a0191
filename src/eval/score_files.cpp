#include "eval/score_files.h"

#include <cmath>

#include "base/error.h"

namespace pmnet {

namespace {

using nlohmann::json;

json to_json(const PositionSums& sums) {
  return {{"count", sums.count()},
          {"window", sums.window()},
          {"windows", sums.windows(sums.window())},
          {"octaves", sums.octaves()}};
}

// A model that has gone wrong gives NaN, which is null in JSON.
std::vector<double> numbers_of(const json& values) {
  std::vector<double> numbers;
  for (const json& value : values) numbers.push_back(value.is_null() ? std::nan("") : value.get<double>());
  return numbers;
}

json to_json(const ThroughputPoint& point) {
  return {point.first, point.bytes, point.seconds, point.fastest, point.state_bytes, point.resident_bytes};
}

}  // namespace

json save_scores(const Evaluation& evaluation) {
  json saved = {{"labels", evaluation.labels},
                {"seconds", evaluation.seconds},
                {"marker_bytes", evaluation.marker_bytes},
                {"documents", json::array()},
                {"throughput", json::array()}};
  for (const DocumentScore& document : evaluation.documents) {
    json scores = json::array();
    for (const PositionSums& sums : document.scores) scores.push_back(to_json(sums));
    saved["documents"].push_back({{"name", document.name},
                                  {"bytes", document.bytes},
                                  {"words", document.words},
                                  {"complete", document.complete},
                                  {"scores", scores}});
  }
  for (const ThroughputCurve& curve : evaluation.throughput) {
    json points = json::array();
    for (const ThroughputPoint& point : curve.points()) points.push_back(to_json(point));
    saved["throughput"].push_back({{"width", curve.width()}, {"points", points}});
  }
  return saved;
}

Evaluation load_scores(const json& saved) {
  Evaluation evaluation;
  evaluation.labels = saved.at("labels").get<std::vector<std::string>>();
  evaluation.seconds = saved.at("seconds").get<std::vector<double>>();
  evaluation.marker_bytes = saved.at("marker_bytes");
  for (const json& entry : saved.at("documents")) {
    DocumentScore document;
    document.name = entry.at("name");
    document.bytes = entry.at("bytes");
    document.words = entry.value("words", int64_t{0});  // absent in older files
    document.complete = entry.at("complete");
    for (const json& sums : entry.at("scores"))
      document.scores.emplace_back(sums.at("count").get<int64_t>(), sums.at("window").get<int64_t>(),
                                   numbers_of(sums.at("windows")), numbers_of(sums.at("octaves")));
    evaluation.documents.push_back(std::move(document));
  }
  for (const json& entry : saved.at("throughput")) {
    ThroughputCurve& curve = evaluation.throughput.emplace_back(entry.at("width").get<int64_t>());
    for (const json& point : entry.at("points"))
      curve.add({.first = point.at(0),
                 .bytes = point.at(1),
                 .seconds = point.at(2),
                 .fastest = point.at(3),
                 .state_bytes = point.at(4),
                 .resident_bytes = point.at(5)});
  }
  return evaluation;
}

void add_documents(Evaluation& evaluation, const Evaluation& more) {
  if (evaluation.labels.empty()) {
    evaluation = more;
    return;
  }
  if (evaluation.labels != more.labels) throw std::logic_error("documents of other models cannot be added");
  evaluation.documents.insert(evaluation.documents.end(), more.documents.begin(), more.documents.end());
  evaluation.marker_bytes += more.marker_bytes;
  for (size_t m = 0; m < more.labels.size(); ++m) {
    evaluation.seconds[m] += more.seconds[m];
    for (const ThroughputPoint& point : more.throughput[m].points()) evaluation.throughput[m].add(point);
  }
}

Evaluation side_by_side(const std::vector<Evaluation>& evaluations) {
  Evaluation all = evaluations.at(0);
  for (size_t e = 1; e < evaluations.size(); ++e) {
    const Evaluation& next = evaluations[e];
    bool same = next.documents.size() == all.documents.size();
    for (size_t d = 0; same && d < all.documents.size(); ++d)
      same = next.documents[d].name == all.documents[d].name && next.documents[d].bytes == all.documents[d].bytes;
    if (!same)
      fail("'{}' and '{}' have read different documents and cannot be compared; were the texts changed meanwhile?",
           all.labels.at(0), next.labels.at(0));
    all.labels.insert(all.labels.end(), next.labels.begin(), next.labels.end());
    all.seconds.insert(all.seconds.end(), next.seconds.begin(), next.seconds.end());
    all.throughput.insert(all.throughput.end(), next.throughput.begin(), next.throughput.end());
    for (size_t d = 0; d < all.documents.size(); ++d)
      all.documents[d].scores.insert(all.documents[d].scores.end(), next.documents[d].scores.begin(),
                                     next.documents[d].scores.end());
  }
  return all;
}

}  // namespace pmnet
