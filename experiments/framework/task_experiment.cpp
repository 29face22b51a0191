#include "experiments/framework/task_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "config/costs.h"
#include "model/model_folder.h"

namespace pmnet {

namespace {

using nlohmann::json;

std::string suffix(const Course& course) { return course.name.empty() ? "" : ", " + course.name; }

bool within_limit(const CandidateSpec& candidate, const TaskCell& cell) {
  return candidate.limit == 0 || cell.length <= candidate.limit;
}

TaskTraining::Evaluation evaluate_stage(const LanguageModel& model, const TaskSettings& settings,
                                        const CandidateSpec& candidate, const Course& course, int64_t stage,
                                        int64_t seed) {
  const TaskStage &now = course.stages.at(static_cast<size_t>(stage)), &last = course.stages.back();
  const auto score = [&](const TaskCell& cell) {
    return score_task(model, candidate.trained, *course.task, cell, settings.validation_samples, validation_seed(seed));
  };
  TaskTraining::Evaluation found;
  // Cells of later stages count as wrong: long rows are costly, and a later stage shall never score less.
  const TaskScore at_hardest = score(now.hardest());
  const double hardest = at_hardest.accuracy();
  double accuracy = hardest, loss = at_hardest.loss, scored = 1, all = 1;
  for (const TaskCell& cell : course.cells) {
    if (!last.trains(cell) || cell == now.hardest()) continue;
    all += 1;
    if (!now.trains(cell)) continue;
    const TaskScore here = score(cell);
    accuracy += here.accuracy();
    loss += here.loss;
    scored += 1;
  }
  found.score = accuracy / all;
  found.loss = loss / scored;
  const bool is_last = stage + 1 == std::ssize(course.stages);
  found.next_stage = !is_last && hardest >= settings.advance_at;
  found.finished = is_last && settings.stop_at > 0 && std::min(found.score, hardest) >= settings.stop_at;
  found.metrics = {{"eval/loss", found.loss},
                   {"eval/accuracy_at_hardest", hardest},
                   {"eval/largest_length", static_cast<double>(now.most)},
                   {"eval/largest_load", static_cast<double>(now.loads.back())}};
  return found;
}

// The model of the same training in the folder `begin_from`, or, if there is none, of that of an unnamed course: an
// experiment with a single course may be the start of each course of another.
std::filesystem::path first_weights(const TaskSettings& settings, const CandidateSpec& candidate, const Course& course,
                                    double learning_rate, int64_t seed) {
  const auto model_of = [&](const Course& trained) {
    const std::string part = train_part_name(settings, candidate, trained, learning_rate, seed);
    return std::filesystem::path(settings.begin_from) / "parts" / folder_name(part) / "model";
  };
  const std::filesystem::path named = model_of(course), unnamed = model_of({});
  return !is_directory(named) && is_directory(unnamed) ? unnamed : named;
}

json test(const TaskSettings& settings, const CandidateSpec& candidate, const Course& course, int64_t seed,
          PartContext& context) {
  // Of several learning rates, the one whose training did best on its validation rows.
  double best_rate = settings.rates_of(candidate).front(), best_score = -1;
  for (const double rate : settings.rates_of(candidate)) {
    const json& training = context.result_of(train_part_name(settings, candidate, course, rate, seed));
    if (const double score = number_of(training.at("best_score")); score > best_score)
      best_rate = rate, best_score = score;
  }
  const std::string trained = train_part_name(settings, candidate, course, best_rate, seed);
  const LoadedModel loaded = load_model(context.folder_of(trained) / "model");
  json result = context.partial().value_or(json{{"learning_rate", best_rate}, {"cells", json::array()}});
  std::vector<TaskCell> cells;
  for (const TaskCell& cell : course.cells)
    if (within_limit(candidate, cell)) cells.push_back(cell);
  for (size_t i = result["cells"].size(); i < cells.size(); ++i) {
    const TaskCell& cell = cells[i];
    const TaskScore score =
        score_task(*loaded.model, candidate.tested, *course.task, cell, settings.samples_of(*course.task, cell),
                   static_cast<uint64_t>(seed), [&](double share) {
                     context.stop().throw_if_requested();
                     context.progress((static_cast<double>(i) + share) / static_cast<double>(cells.size()),
                                      fmt::format("load {}, length {}", cell.load, cell.length));
                   });
    result["cells"].push_back({{"load", cell.load},
                               {"length", cell.length},
                               {"accuracy", score.accuracy()},
                               {"row_accuracy", score.row_accuracy()},
                               {"loss", score.loss},
                               {"answers", score.answers},
                               {"rows", score.rows}});
    context.save_partial(result);
  }
  return result;
}

}  // namespace

const CandidateSpec& TaskPlan::find(const std::string& name) const {
  for (const CandidateSpec& candidate : candidates)
    if (candidate.name == name) return candidate;
  throw std::logic_error("the plan has no candidate " + name);
}

std::string train_part_name(const TaskSettings& settings, const CandidateSpec& candidate, const Course& course,
                            double learning_rate, int64_t seed) {
  const bool several = settings.rates_of(candidate).size() > 1;
  return fmt::format("train {}{}{}, seed {}", candidate.training, suffix(course),
                     several ? fmt::format(", lr {}", learning_rate) : "", seed);
}

std::string test_part_name(const CandidateSpec& candidate, const Course& course, int64_t seed) {
  return fmt::format("test {}{}, seed {}", candidate.name, suffix(course), seed);
}

TaskTraining task_training(const TaskSettings& settings, const CandidateSpec& candidate, Course course,
                           double learning_rate, int64_t seed) {
  course.stages = settings.stages_of(candidate, course.stages);
  TaskTraining training;
  training.model = candidate.config;
  training.config = settings.train_config(candidate, learning_rate, seed);
  if (!settings.begin_from.empty())
    training.begin_from = first_weights(settings, candidate, course, learning_rate, seed);
  training.batch = [course, seed, rows = settings.train.batch, distinct = settings.training_rows](int64_t step,
                                                                                                  int64_t number) {
    const TaskStage& stage = course.stages.at(static_cast<size_t>(number));
    const Task& task = course.training_task ? *course.training_task : *course.task;
    return make_task_batch(task, stage, static_cast<uint64_t>(seed), step, stage.rows > 0 ? stage.rows : rows,
                           distinct);
  };
  training.patience = settings.patience;
  training.rate = [course, decay = settings.stage_decay](int64_t stage, int64_t steps) {
    const double fallen = decay > 0 && stage > 0 ? 1 + static_cast<double>(steps) / static_cast<double>(decay) : 1;
    return course.stages.at(static_cast<size_t>(stage)).rate / fallen;
  };
  training.evaluate = [&settings, candidate, course, seed](const LanguageModel& model, int64_t stage) {
    return evaluate_stage(model, settings, candidate, course, stage, seed);
  };
  return training;
}

Part TaskExperiment::train_part(const CandidateSpec& candidate, const Course& course, double learning_rate,
                                int64_t seed) const {
  const TaskSettings& settings = task_settings();
  const TaskTraining training = task_training(settings, candidate, course, learning_rate, seed);
  // What a step costs, taken from the middle of the curriculum: it begins with short rows, and the last stage is the
  // longest by far, for attention above all, and need not be reached.
  TaskTraining middle = training;
  middle.batch = [training, stage = std::ssize(course.stages) / 2](int64_t step, int64_t) {
    return training.batch(step, stage);
  };
  Part part;
  part.name = train_part_name(settings, candidate, course, learning_rate, seed);
  part.timed_as = "train " + candidate.training + suffix(course);
  part.cost = training_cost(middle);
  part.estimate_seconds = [middle, steps = settings.train.steps] {
    return time_task_step(middle) * static_cast<double>(steps);
  };
  part.run = [training](PartContext& context) { return to_json(train_on_task(training, context)); };
  return part;
}

Part TaskExperiment::test_part(const CandidateSpec& candidate, const Course& course, int64_t seed) const {
  const TaskSettings& settings = task_settings();
  Part part;
  part.name = test_part_name(candidate, course, seed);
  part.cost.parameters = parameter_count(candidate.config);
  for (const TaskCell& cell : course.cells) {
    if (!within_limit(candidate, cell)) continue;
    const int64_t row = course.task->row_size(cell);
    const double bytes = static_cast<double>(settings.samples_of(*course.task, cell) * row);
    part.cost.bytes += bytes;
    part.cost.flop += bytes * 2 * total(multiply_adds_per_token(candidate.config, row));
  }
  part.run = [&settings, candidate, course, seed](PartContext& context) {
    return test(settings, candidate, course, seed, context);
  };
  return part;
}

std::vector<Part> TaskExperiment::parts() {
  const TaskPlan plan = this->plan();
  std::vector<Part> parts;
  for (const Course& course : plan.courses)
    for (const int64_t seed : task_settings().seed_numbers()) {
      for (const CandidateSpec& candidate : plan.candidates)
        for (const double rate : task_settings().rates_of(candidate))
          if (candidate.trains()) parts.push_back(train_part(candidate, course, rate, seed));
      for (const CandidateSpec& candidate : plan.candidates) parts.push_back(test_part(candidate, course, seed));
    }
  return parts;
}

}  // namespace pmnet
