// The synthetic experiments end to end in their smallest size. Recall is the quickest test that learning works at all:
// past the reach of the windows PMNet must know the answer, and must guess without the recurrence of its memory.
#include <gtest/gtest.h>

#include <csignal>

#include "base/file.h"
#include "base/json.h"
#include "experiments/framework/run_experiment.h"
#include "experiments/recall/recall.h"
#include "model/model_folder.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json result_in(const fs::path& folder, const std::string& part) {
  return read_json(folder / "parts" / folder_name(part) / "result.json").at("result");
}

void expect_report(const fs::path& folder, const std::vector<std::string>& pictures) {
  const std::string html = read_file(folder / "report.html", 1 << 26);
  EXPECT_NE(html.find("data:image/svg+xml"), std::string::npos);
  for (const std::string& picture : pictures) EXPECT_TRUE(fs::exists(folder / picture)) << picture;
  EXPECT_TRUE(fs::exists(folder / "report.md"));
}

TEST(Smoke, RecallLearnsWithRecurrenceAndGuessesWithout) {
  const TemporaryFolder folder;
  const fs::path out = folder / "recall";
  const ExperimentSummary summary = run_experiment(find_experiment("recall"), {Recipe::kSmoke, out, {}});
  ASSERT_TRUE(summary.finished);
  const RecallSettings settings(Recipe::kSmoke);
  const auto first = std::find_if(settings.distances.begin(), settings.distances.end(),
                                  [&](int64_t distance) { return distance > settings.reach(); });
  ASSERT_NE(first, settings.distances.end());
  const json pmnet = result_in(out, "test pmnet, seed 1").at("right").at("1");
  const json without = result_in(out, "test pmnet without recurrence, seed 1").at("right").at("1");
  const json window = result_in(out, "test window, seed 1").at("right").at("1");
  const double questions = static_cast<double>(settings.streams), chance = settings.task().chance();
  // Guesses are binomial: four standard deviations above chance happen once in thirty thousand.
  const double guessing = chance + 4 * std::sqrt(chance * (1 - chance) / questions);
  for (auto distance = first; distance != settings.distances.end() && *distance <= settings.most_distance; ++distance) {
    const size_t i = static_cast<size_t>(distance - settings.distances.begin());
    EXPECT_GE(pmnet.at(i).get<double>() / questions, 0.95) << "after " << *distance;
    EXPECT_LE(without.at(i).get<double>() / questions, guessing) << "after " << *distance;
    EXPECT_LE(window.at(i).get<double>() / questions, guessing) << "after " << *distance;
  }
  EXPECT_EQ(judge(summary.report.findings.at(0).checks), Verdict::kHolds) << read_file(out / "report.md", 1 << 20);
  expect_report(out, {"accuracy.svg", "grid-pmnet.svg", "grid-window.svg", "accuracy.csv"});
}

TEST(Smoke, CopyRunsInBothReadings) {
  const TemporaryFolder folder;
  const fs::path out = folder / "copy";
  ASSERT_TRUE(run_experiment(find_experiment("copy"), {Recipe::kSmoke, out, {}}).finished);
  expect_report(out, {"accuracy-paper.svg", "accuracy-strict.svg", "training-paper.svg", "training-strict.svg"});
  const json strict = result_in(out, "test pmnet, strict reading, seed 1");
  EXPECT_GT(strict.at("lengths").back().get<int64_t>(), 6) << "beyond the reach of two windows of four";
}

TEST(Smoke, StabilityRunsInAllVariants) {
  const TemporaryFolder folder;
  const fs::path out = folder / "stability";
  ASSERT_TRUE(run_experiment(find_experiment("stability"), {Recipe::kSmoke, out, {}}).finished);
  expect_report(out, {"context.svg", "training.svg", "stability.csv"});
  // All variants start from the same weights and see the same batches.
  const json phases = result_in(out, "train phases, normalised, context 24, seed 1");
  const json sums = result_in(out, "train unconstrained, not normalised, context 24, seed 1");
  EXPECT_EQ(phases.at("batch_hash"), sums.at("batch_hash"));
  EXPECT_NE(phases.at("median_norm"), sums.at("median_norm"));
}

// A training that is interrupted in the middle ends with the same bits as one that is not.
TEST(TaskTrainingTest, AnInterruptedTrainingResumesBitByBit) {
  const TemporaryFolder folder;
  const RecallSettings settings(Recipe::kSmoke);
  int64_t interrupt_at = -1;
  TaskTraining training;
  training.model = settings.model_config(Contender::kPmnet);
  training.config = settings.train_config(3);
  training.config.steps = 12;
  training.config.eval_every = 4;
  training.batch = [&](int64_t step, int64_t stage) {
    if (step == interrupt_at) std::raise(SIGTERM);
    return make_recall_batch(settings.task(), {{1}, 0, 8 + 4 * stage, false}, 3, step, 4);
  };
  training.evaluate = [&](const LanguageModel& model, int64_t) {
    RecallQuestion question;
    question.distances = {8};
    question.streams = 8;
    TaskTraining::Evaluation found;
    found.score = -score_recall(model, {}, settings.task(), question).loss[0];
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
