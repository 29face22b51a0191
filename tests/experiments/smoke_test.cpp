// The experiments on synthetic tasks at smoke size, from end to end; and what a training on a task can do: resume,
// curricula, several learning rates, weights to begin from.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <csignal>

#include "base/file.h"
#include "base/json.h"
#include "base/stop_signal.h"
#include "experiments/copy/copy.h"
#include "experiments/framework/run_experiment.h"
#include "experiments/mqar/mqar.h"
#include "model/model_folder.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Overrides = std::vector<std::pair<std::string, std::vector<std::string>>>;

std::string lower(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

json result_in(const fs::path& folder, const std::string& part) {
  return read_json(folder / "parts" / folder_name(part) / "result.json").at("result");
}

ExperimentSummary run_smoke(const std::string& name, const fs::path& out, const Overrides& overrides = {}) {
  ExperimentRequest request{"smoke", out, {}};
  for (const auto& [key, values] : overrides) request.settings.push_back({key, values, "--set"});
  return run_experiment(find_experiment(name), request);
}

MqarSettings mqar_settings() {
  MqarSettings settings;
  settings.set(read_toml(find_recipe("mqar", "smoke")));
  return settings;
}

double accuracy_at(const json& test, int64_t length) {
  for (const json& cell : test.at("cells"))
    if (cell.at("length") == length) return cell.at("accuracy");
  ADD_FAILURE() << "not tested at " << length;
  return 0;
}

void expect_report(const fs::path& folder, const std::vector<std::string>& pictures) {
  const std::string html = read_file(folder / "report.html", 1 << 26);
  EXPECT_NE(html.find("data:image/svg+xml"), std::string::npos);
  EXPECT_NE(html.find("No verdict at this size"), std::string::npos);
  for (const std::string& picture : pictures) EXPECT_TRUE(fs::exists(folder / picture)) << picture;
  EXPECT_TRUE(fs::exists(folder / "report.md"));
}

TEST(Smoke, MqarLearnsWithRecurrenceAndGuessesWithout) {
  const TemporaryFolder folder;
  const fs::path out = folder / "mqar";
  const ExperimentSummary summary = run_smoke("mqar", out);
  ASSERT_TRUE(summary.finished);
  const MqarSettings settings = mqar_settings();
  const json pmnet = result_in(out, "test pmnet, gap, seed 1");
  const json without = result_in(out, "test pmnet without recurrence, gap, seed 1");
  const json window = result_in(out, "test window, gap, seed 1");
  const double questions = static_cast<double>(settings.samples), chance = settings.task.chance();
  // Guesses are binomial: four standard deviations above chance happen once in thirty thousand.
  const double guessing = chance + 4 * std::sqrt(chance * (1 - chance) / questions);
  int64_t beyond = 0;
  for (const int64_t length : settings.lengths) {
    if (length <= settings.reach() || length > settings.most) continue;
    beyond += 1;
    EXPECT_GE(accuracy_at(pmnet, length), 0.95) << "after " << length;
    EXPECT_LE(accuracy_at(without, length), guessing) << "after " << length;
    EXPECT_LE(accuracy_at(window, length), guessing) << "after " << length;
  }
  EXPECT_GT(beyond, 0);
  EXPECT_EQ(judge(summary.report.findings.at(0).checks), Verdict::kHolds) << read_file(out / "report.md", 1 << 20);
  expect_report(out, {"gap-accuracy.svg", "accuracy.csv"});
}

TEST(Smoke, CopyRunsInBothReadings) {
  const TemporaryFolder folder;
  const fs::path out = folder / "copy";
  ASSERT_TRUE(run_smoke("copy", out).finished);
  expect_report(out, {"accuracy-paper.svg", "accuracy-strict.svg", "training-paper.svg", "training-strict.svg"});
  const json strict = result_in(out, "test pmnet, strict reading, seed 1");
  EXPECT_GT(strict.at("cells").back().at("length").get<int64_t>(), 6) << "beyond the reach of two windows of four";
}

// Every probe runs from training to report, with all of its candidates.
TEST(Smoke, ProbesRun) {
  const TemporaryFolder folder;
  const std::pair<const char*, std::vector<std::string>> probes[] = {
      {"parity", {"accuracy.svg"}},
      {"modular", {"mod-3-accuracy.svg", "mod-5-accuracy.svg"}},
      {"induction", {"accuracy.svg"}},
      {"selective-copy", {"accuracy.svg", "grid-pmnet.svg"}},
      {"in-context-recall", {"accuracy.svg"}},
      {"needle", {"accuracy.svg", "grid-pmnet.svg"}}};
  for (const auto& [name, pictures] : probes) {
    SCOPED_TRACE(name);
    const fs::path out = folder / name;
    const ExperimentSummary summary = run_smoke(name, out);
    ASSERT_TRUE(summary.finished);
    expect_report(out, pictures);
    const Finding& first = summary.report.findings.at(0);
    EXPECT_TRUE(std::any_of(first.checks.begin(), first.checks.end(), [](const Check& check) {
      return check.control && check.bound == Bound::kAtLeast && check.what.find("Transformer") != std::string::npos;
    })) << "the Transformer is the control that must succeed";
    const std::string report = read_file(out / "report.md", 1 << 20);
    for (const char* words : {"Published results", "Bytes of state", "Mamba"})
      EXPECT_NE(lower(report).find(lower(words)), std::string::npos) << words;
  }
}

TEST(Smoke, StabilityRunsInAllVariants) {
  const TemporaryFolder folder;
  const fs::path out = folder / "stability";
  ASSERT_TRUE(run_smoke("stability", out).finished);
  expect_report(out, {"context.svg", "training.svg", "accuracy.csv", "trainings.csv"});
  // All variants start from the same weights and see the same batches.
  const json phases = result_in(out, "train phases, normalised, context 24, seed 1");
  const json sums = result_in(out, "train unconstrained, not normalised, context 24, seed 1");
  EXPECT_EQ(phases.at("batch_hash"), sums.at("batch_hash"));
  EXPECT_NE(phases.at("median_norm"), sums.at("median_norm"));
}

TEST(TaskExperimentTest, TheBestOfSeveralLearningRatesIsTested) {
  const TemporaryFolder folder;
  const fs::path out = folder / "out";
  const ExperimentSummary summary = run_smoke("mqar", out,
                                              {{"candidates", {"pmnet", "mamba"}},
                                               {"zoology_pairs", {}},
                                               {"steps", {"60"}},
                                               {"lr", {"1e-9", "3e-3"}},
                                               {"baseline_lr", {"1e-3"}},
                                               {"most", {"8"}}});
  ASSERT_TRUE(summary.finished);
  const json slow = result_in(out, "train pmnet, lr 1e-09, seed 1"),
             fast = result_in(out, "train pmnet, lr 0.003, seed 1");
  EXPECT_EQ(slow.at("batch_hash"), fast.at("batch_hash")) << "the same batches";
  ASSERT_GT(fast.at("best_score").get<double>(), slow.at("best_score").get<double>());
  EXPECT_EQ(result_in(out, "test pmnet, seed 1").at("learning_rate"), 3e-3);
  EXPECT_EQ(result_in(out, "test pmnet without recurrence, seed 1").at("learning_rate"), 3e-3);
  EXPECT_EQ(result_in(out, "test mamba, seed 1").at("learning_rate"), 1e-3)
      << "baselines have their own learning rates";
}

TEST(TaskExperimentTest, BaselinesCanBeTrainedAlone) {
  const TemporaryFolder folder;
  const fs::path out = folder / "out";
  const ExperimentSummary summary =
      run_smoke("mqar", out, {{"candidates", {"mamba"}}, {"zoology_pairs", {}}, {"samples", {"8"}}, {"steps", {"2"}}});
  ASSERT_TRUE(summary.finished);
  EXPECT_TRUE(result_in(out, "test mamba, seed 1").contains("cells"));
  for (const Finding& finding : summary.report.findings)
    EXPECT_TRUE(finding.checks.empty()) << finding.heading << ": the claims are about PMNet";
}

TEST(TaskExperimentTest, SeedsCanBeginLater) {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& first, const std::string& count) {
    const ExperimentSummary summary = run_smoke("mqar", folder / first,
                                                {{"candidates", {"pmnet"}},
                                                 {"zoology_pairs", {}},
                                                 {"samples", {"8"}},
                                                 {"steps", {"2"}},
                                                 {"first_seed", {first}},
                                                 {"seeds", {count}}});
    EXPECT_TRUE(summary.finished);
  };
  run("1", "2");
  run("2", "2");
  EXPECT_EQ(result_in(folder / "1", "test pmnet, seed 2"), result_in(folder / "2", "test pmnet, seed 2"));
  EXPECT_NE(result_in(folder / "2", "train pmnet, seed 2").at("batch_hash"),
            result_in(folder / "2", "train pmnet, seed 3").at("batch_hash"));
  EXPECT_FALSE(fs::exists(folder / "2" / "parts" / "train-pmnet-seed-1"));
}

TEST(TaskExperimentTest, ATrainingThatDoesNotImproveEndsEarly) {
  const TemporaryFolder folder;
  const ExperimentSummary summary = run_smoke("mqar", folder / "out",
                                              {{"candidates", {"pmnet"}},
                                               {"zoology_pairs", {}},
                                               {"samples", {"8"}},
                                               {"lr", {"1e-12"}},
                                               {"eval_every", {"5"}},
                                               {"patience", {"10"}}});
  ASSERT_TRUE(summary.finished);
  const json training = result_in(folder / "out", "train pmnet, seed 1");
  EXPECT_EQ(training.at("steps"), 15) << "the score last rose at step 5";
}

TEST(TaskExperimentTest, ACurriculumAdvancesAndTheNextExperimentBeginsFromItsWeights) {
  const TemporaryFolder folder;
  const Overrides tiny = {
      {"candidates", {"pmnet"}}, {"zoology_pairs", {}}, {"steps", {"8"}}, {"eval_every", {"2"}},
      {"keys", {"4"}},           {"loads", {"1", "2"}}, {"most", {"16"}}, {"lengths", {"4", "16", "32"}}};
  Overrides staged = tiny;
  staged.insert(staged.end(), {{"stages", {"4", "8"}}, {"stage_loads", {"1", "1", "2"}}, {"advance_at", {"0"}}});
  ASSERT_TRUE(run_smoke("mqar", folder / "first", staged).finished);
  EXPECT_EQ(result_in(folder / "first", "train pmnet, seed 1").at("stage"), 2);
  Overrides further = tiny;
  further.insert(further.end(), {{"begin_from", {(folder / "first").string()}}, {"lr", {"1e-12"}}});
  ASSERT_TRUE(run_smoke("mqar", folder / "second", further).finished);
  const auto weights = [&](const char* experiment) {
    return load_model(folder / experiment / "parts" / "train-pmnet-seed-1" / "model").model->named_parameters();
  };
  const auto before = weights("first"), after = weights("second");
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::allclose(before[i].second, after[i].second, 1e-4, 1e-6)) << before[i].first;
  further.back() = {"hidden", {"48"}};
  EXPECT_NE(user_error_of([&] { run_smoke("mqar", folder / "third", further); }).find("another shape"),
            std::string::npos);
}

TEST(TaskExperimentTest, AnyCourseCanBeginFromAnExperimentWithOne) {
  const TemporaryFolder folder;
  const Overrides tiny = {{"candidates", {"pmnet"}}, {"steps", {"2"}},   {"eval_every", {"2"}},
                          {"keys", {"4"}},           {"loads", {"1"}},   {"most", {"16"}},
                          {"lengths", {"16"}},       {"samples", {"4"}}, {"lr", {"1e-12"}}};
  Overrides first = tiny, second = tiny;
  first.push_back({"zoology_pairs", {}});
  ASSERT_TRUE(run_smoke("mqar", folder / "first", first).finished);
  second.insert(second.end(),
                {{"gaps", {"false"}}, {"zoology_pairs", {"2"}}, {"begin_from", {(folder / "first").string()}}});
  ASSERT_TRUE(run_smoke("mqar", folder / "second", second).finished);
  const auto weights = [&](const char* part) { return load_model(folder / part / "model").model->named_parameters(); };
  const auto before = weights("first/parts/train-pmnet-seed-1"),
             after = weights("second/parts/train-pmnet-zoology-seed-1");
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::allclose(before[i].second, after[i].second, 1e-4, 1e-6)) << before[i].first;
}

TEST(TaskSettingsTest, StagesRiseToTheLast) {
  TaskSettings settings;
  settings.stages = {2, 4, 9};
  const std::vector<TaskStage> short_course = settings.stages_to({{1, 2}, 1, 4, false});
  ASSERT_EQ(short_course.size(), 2u) << "stages as long as the last, or longer, are left out";
  EXPECT_EQ(short_course[0].most, 2);
  EXPECT_EQ(short_course[1].most, 4);
  settings.stage_loads = {1, 1, 2, 2};
  const std::vector<TaskStage> loaded = settings.stages_to({{1, 2}, 1, 9, false});
  ASSERT_EQ(loaded.size(), 4u);
  EXPECT_EQ(loaded[1].hardest(), (TaskCell{1, 4}));
  EXPECT_EQ(loaded[2].hardest(), (TaskCell{2, 9}));
}

TEST(TaskSettingsTest, BaselinesMayBeginWithFewerThings) {
  const MqarSettings settings = mqar_settings();
  TaskSettings staged;
  staged.baseline_first_load = 2;
  const std::vector<TaskStage> stages = {{{2, 4}, 1, 8, false}, {{2, 4, 8}, 1, 16, false}};
  EXPECT_EQ(staged.stages_of(settings.candidate(CandidateKind::kPmnet), stages).size(), 2u);
  const auto more = staged.stages_of(settings.candidate(CandidateKind::kTransformer), stages);
  ASSERT_EQ(more.size(), 3u);
  EXPECT_EQ(more[0].hardest(), (TaskCell{2, 8}));
  EXPECT_EQ(more[1].hardest(), (TaskCell{4, 8}));
  staged.baseline_first_load = 4;  // what the first stage has anyway
  EXPECT_EQ(staged.stages_of(settings.candidate(CandidateKind::kMamba), stages).size(), 2u);
  staged.baseline_first_load = 2;
  TaskStage of_cells{{2, 4}, 1, 64};
  of_cells.cells = {{2, 32}, {4, 64}};
  const auto with_cells = staged.stages_of(settings.candidate(CandidateKind::kTransformer), {of_cells});
  ASSERT_EQ(with_cells.size(), 2u);
  EXPECT_EQ(with_cells[0].cells, (std::vector<TaskCell>{{2, 32}}));
  EXPECT_EQ(with_cells[0].most, 32);
}

TEST(TaskTrainingTest, OfEqualScoresTheLaterStageThenTheLowerLossIsKept) {
  const TemporaryFolder folder;
  const MqarSettings settings = mqar_settings();
  TaskTraining training;
  training.model = settings.model_config(CandidateKind::kPmnet);
  training.config = settings.train_config(settings.candidate(CandidateKind::kPmnet), 3e-3, 3);
  training.config.steps = 5;
  training.config.eval_every = 1;
  training.batch = [&](int64_t step, int64_t) {
    return make_task_batch(settings.task, {{1}, 0, 8, false}, 3, step, 4);
  };
  size_t evaluations = 0;
  training.evaluate = [&](const LanguageModel&, int64_t) {
    constexpr std::array kFound = {std::pair(0.5, 0.1), std::pair(1.0, 0.1), std::pair(1.0, 0.4), std::pair(1.0, 0.2),
                                   std::pair(1.0, 0.3)};
    const auto [score, loss] = kFound.at(evaluations++);
    return TaskTraining::Evaluation{.score = score, .loss = loss, .next_stage = evaluations == 2, .metrics = {}};
  };
  ProcessGroup group;
  const Results none;
  PartContext context(folder.path(), "ties", none, group, [](const PartContext::Shown&) {}, [](const std::string&) {});
  const TaskOutcome outcome = train_on_task(training, context);
  EXPECT_EQ(outcome.best_score, 1.0);
  EXPECT_EQ(outcome.best_step, 4);
}

// A training that is interrupted in the middle ends with the same bits as one that is not.
TEST(TaskTrainingTest, AnInterruptedTrainingResumesBitByBit) {
  const TemporaryFolder folder;
  const MqarSettings settings = mqar_settings();
  int64_t interrupt_at = -1;
  TaskTraining training;
  training.model = settings.model_config(CandidateKind::kPmnet);
  training.config = settings.train_config(settings.candidate(CandidateKind::kPmnet), 3e-3, 3);
  training.config.steps = 12;
  training.config.eval_every = 4;
  training.batch = [&](int64_t step, int64_t stage) {
    if (step == interrupt_at) std::raise(SIGTERM);
    return make_task_batch(settings.task, {{1}, 0, 8 + 4 * stage, false}, 3, step, 4);
  };
  training.evaluate = [&](const LanguageModel& model, int64_t) {
    TaskTraining::Evaluation found;
    found.score = -score_task(model, {}, settings.task, {1, 8}, 8, 0).loss;
    found.next_stage = true;
    return found;
  };
  const auto run = [&](const std::string& name) {
    const StopSignals signals;
    ProcessGroup group;
    const Results none;
    PartContext context(folder.path(), name, none, group, [](const PartContext::Shown&) {}, [](const std::string&) {});
    return train_on_task(training, context);
  };
  const TaskOutcome whole = run("whole");
  interrupt_at = 6;
  EXPECT_THROW(run("parted"), StopRequested);
  EXPECT_TRUE(fs::exists(folder / "parts" / "parted" / "ckpt"));
  interrupt_at = -1;
  const TaskOutcome parted = run("parted");
  EXPECT_FALSE(fs::exists(folder / "parts" / "parted" / "ckpt")) << "a finished training needs no checkpoint";
  EXPECT_EQ(whole.steps, 12);
  EXPECT_EQ(whole.stage, 3);
  EXPECT_EQ(parted.batch_hash, whole.batch_hash);
  EXPECT_EQ(parted.best_step, whole.best_step);
  EXPECT_EQ(parted.best_score, whole.best_score);
  EXPECT_EQ(parted.largest_norm, whole.largest_norm);
  EXPECT_EQ(parted.last_loss, whole.last_loss);
  const auto hash = [&](const std::string& name) {
    return model_hash(*load_model(folder / "parts" / name / "model").model);
  };
  EXPECT_EQ(hash("parted"), hash("whole"));
}

}  // namespace
}  // namespace pmnet
