#include "experiments/framework/task_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/format.h"
#include "config/costs.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Null where the cell was not tested.
const json* find_cell(const json& test, const TaskCell& cell) {
  for (const json& found : test.at("cells"))
    if (found.at("load") == cell.load && found.at("length") == cell.length) return &found;
  return nullptr;
}

}  // namespace

TaskResults::TaskResults(const TaskSettings& settings, const TaskPlan& plan, const Results& results)
    : settings_(settings), plan_(plan), results_(results) {}

double TaskResults::best_rate(const CandidateSpec& candidate, const Course& course, int64_t seed) const {
  const CandidateSpec& trained = plan_.find(candidate.training);
  return results_.at(test_part_name(trained, course, seed)).at("learning_rate");
}

std::vector<double> TaskResults::tested(const CandidateSpec& candidate, const Course& course, const TaskCell& cell,
                                        const std::string& measure) const {
  std::vector<double> values;
  for (const int64_t seed : settings_.seed_numbers())
    if (const json* found = find_cell(results_.at(test_part_name(candidate, course, seed)), cell))
      values.push_back(number_of(found->at(measure)));
  return values;
}

std::vector<double> TaskResults::trained(const CandidateSpec& candidate, const Course& course,
                                         const std::string& measure) const {
  std::vector<double> values;
  for (const int64_t seed : settings_.seed_numbers()) {
    const double rate = best_rate(candidate, course, seed);
    values.push_back(number_of(results_.at(train_part_name(settings_, candidate, course, rate, seed)).at(measure)));
  }
  return values;
}

TaskResults::Accuracy TaskResults::accuracy(const CandidateSpec& candidate, const Course& course,
                                            const TaskCell& cell) const {
  const std::vector<double> values = tested(candidate, course, cell);
  if (values.size() != 1) return {mean_interval(values), "seeds"};
  const auto answers = static_cast<int64_t>(tested(candidate, course, cell, "answers")[0]);
  return {share_interval(std::llround(values[0] * static_cast<double>(answers)), answers), "answers"};
}

Check TaskResults::knows(const std::string& what, const CandidateSpec& candidate, const Course& course,
                         const TaskCell& cell) const {
  const Accuracy measured = accuracy(candidate, course, cell);
  return at_least(kLearned, what, measured.interval, measured.over);
}

Check TaskResults::guesses(const std::string& what, const CandidateSpec& candidate, const Course& course,
                           const TaskCell& cell) const {
  const Accuracy measured = accuracy(candidate, course, cell);
  return at_most(course.task->chance() + kChanceMargin, what, measured.interval, measured.over);
}

Interval TaskResults::norm_ratio(const std::string& measure, const CandidateSpec& above, const Course& above_course,
                                 const CandidateSpec& below, const Course& below_course) const {
  std::vector<double> ratios = trained(above, above_course, measure);
  const std::vector<double> lower = trained(below, below_course, measure);
  for (size_t i = 0; i < ratios.size(); ++i) ratios[i] = std::log10(ratios[i] / lower[i]);
  return mean_interval(ratios);
}

std::vector<Series> TaskResults::over_lengths(const Course& course, int64_t load, const std::string& measure) const {
  std::vector<Series> list;
  for (const CandidateSpec& candidate : plan_.candidates) {
    std::vector<double> xs;
    std::vector<std::vector<double>> values;
    for (const TaskCell& cell : course.cells) {
      if (cell.load != load) continue;
      std::vector<double> found = tested(candidate, course, cell, measure);
      if (found.empty()) continue;
      xs.push_back(static_cast<double>(std::max<int64_t>(1, cell.length)));  // axes may be logarithmic
      values.push_back(std::move(found));
    }
    list.push_back(seed_band(candidate.title, xs, values));
  }
  return list;
}

HeatMap TaskResults::heat_map(const CandidateSpec& candidate, const Course& course) const {
  HeatMap map;
  map.title = fmt::format("{} (chance {:.3f})", candidate.title, course.task->chance());
  map.value_label = "accuracy, mean over seeds";
  map.low = 0;
  map.high = 1;
  std::vector<int64_t> loads, lengths;
  for (const TaskCell& cell : course.cells) {
    if (std::find(loads.begin(), loads.end(), cell.load) == loads.end()) loads.push_back(cell.load);
    if (std::find(lengths.begin(), lengths.end(), cell.length) == lengths.end()) lengths.push_back(cell.length);
  }
  double reach = -0.5;
  for (const int64_t length : lengths) {
    map.x_names.push_back(format_si(static_cast<double>(length)));
    if (length <= settings_.reach()) reach += 1;
  }
  if (std::holds_alternative<PmnetConfig>(candidate.config)) map.markers.push_back({reach, "reach of the windows"});
  for (const int64_t load : loads) {
    map.y_names.push_back(std::to_string(load));
    std::vector<double>& row = map.values.emplace_back();
    for (const int64_t length : lengths) row.push_back(mean_interval(tested(candidate, course, {load, length})).mean);
  }
  return map;
}

Table TaskResults::cell_table() const {
  Table table({"course", "model", "seed", "load", "length", "accuracy", "row accuracy", "loss"});
  for (const Course& course : plan_.courses)
    for (const CandidateSpec& candidate : plan_.candidates)
      for (const int64_t seed : settings_.seed_numbers())
        for (const json& cell : results_.at(test_part_name(candidate, course, seed)).at("cells"))
          table.add_row({course.name, candidate.title, std::to_string(seed), cell.at("load").dump(),
                         cell.at("length").dump(), fmt::format("{:.6f}", number_of(cell.at("accuracy"))),
                         fmt::format("{:.6f}", number_of(cell.at("row_accuracy"))),
                         fmt::format("{:.6f}", number_of(cell.at("loss")))});
  return table;
}

NamedTable TaskResults::training_table() const {
  Table table({"model", "course", "seed", "learning rate", "chosen", "parameters", "steps", "best step", "score",
               "median norm", "largest norm", "skipped", "loss at the end", "batches"});
  for (const Course& course : plan_.courses)
    for (const CandidateSpec& candidate : plan_.candidates)
      for (const int64_t seed : candidate.trains() ? settings_.seed_numbers() : std::vector<int64_t>())
        for (const double rate : settings_.rates_of(candidate)) {
          const json& result = results_.at(train_part_name(settings_, candidate, course, rate, seed));
          const auto number = [&](const char* measure) { return fmt::format("{:.4g}", number_of(result.at(measure))); };
          table.add_row({candidate.title, course.name, std::to_string(seed), fmt::format("{}", rate),
                         rate == best_rate(candidate, course, seed) ? "yes" : "",
                         format_count(static_cast<uint64_t>(parameter_count(candidate.config))),
                         result.at("steps").dump(), result.at("best_step").dump(), number("best_score"),
                         number("median_norm"), number("largest_norm"), result.at("skipped").dump(),
                         number("last_loss"), result.at("batch_hash").get<std::string>()});
        }
  return {
      "Gradient norms are those before clipping. Of several learning rates the one with the best validation score is "
      "tested. The last column is a hash of all batches in order: equal for models that saw the same bytes for the "
      "same number of steps.",
      table};
}

std::vector<SeedCurves> TaskResults::training_curves(const fs::path& folder, const Course& course) const {
  std::vector<SeedCurves> models;
  for (size_t c = 0; c < plan_.candidates.size(); ++c) {
    const CandidateSpec& candidate = plan_.candidates[c];
    if (!candidate.trains()) continue;
    SeedCurves& model = models.emplace_back(SeedCurves{candidate.title, static_cast<int>(c), {}});
    for (const int64_t seed : settings_.seed_numbers()) {
      const std::string part = train_part_name(settings_, candidate, course, best_rate(candidate, course, seed), seed);
      model.folders.push_back(folder / "parts" / folder_name(part));
    }
  }
  return models;
}

}  // namespace pmnet
