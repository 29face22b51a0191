// The framework, on an experiment that computes nothing: what is repeated, resumed, refused and reported.
#include "experiments/framework/run_experiment.h"

#include <gtest/gtest.h>

#include <csignal>

#include "base/atomic_folder.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct CountSettings : Settings {
  int64_t steps = 3;
  double rate = 0.5;
  bool loud = false;
  std::string word = "one";
  std::vector<int64_t> sizes = {1, 2};
  void list_fields(SettingsTable& table) override {
    Settings::list_fields(table);
    table.add("steps", &steps, "", kPositive);
    table.add("rate", &rate, "");
    table.add("loud", &loud, "");
    table.add("word", &word, "");
    table.add("sizes", &sizes, "");
  }
};

// What the parts did, and when the second is to be interrupted.
struct Journal {
  std::vector<std::string> runs;
  int64_t interrupt_at = -1;
};
Journal journal;

class CountExperiment : public Experiment {
 public:
  Settings& settings() override { return settings_; }

  std::vector<Part> parts() override {
    Part first;
    first.name = "count, to one";
    first.cost = {10, 100, 1000};
    first.estimate_seconds = [] {
      journal.runs.push_back("timed");
      return 2.0;
    };
    first.run = [](PartContext& context) {
      journal.runs.push_back("first");
      context.progress(0.5, "half");
      return json{{"value", 1}, {"nothing", std::nan("")}};
    };
    Part second;
    second.name = "count further";
    second.cost = {10, 100, 3000};
    second.run = [this](PartContext& context) {
      int64_t value = context.partial().value_or(context.result_of("count, to one")).at("value");
      for (; value < settings_.steps; ++value) {
        journal.runs.push_back(fmt::format("count {}", value));
        context.save_partial({{"value", value + 1}});
        if (value + 1 == journal.interrupt_at) std::raise(SIGTERM);
        context.stop().throw_if_requested();
      }
      return json{{"value", value}};
    };
    return {first, second};
  }

  Report report(const Results& results, const fs::path&) override {
    journal.runs.push_back("report");
    EXPECT_TRUE(std::isnan(number_of(results.at("count, to one").at("nothing"))));
    Check check;
    check.what = "count";
    const double value = results.at("count further").at("value");
    check.measured = {value, value - 0.5, value + 0.5, 2};
    check.threshold = 2;
    Finding finding;
    finding.heading = "It counts";
    finding.claim = "The count is at least two.";
    finding.checks = {check};
    return {"Counting", {"Counts from one."}, {finding}};
  }

 private:
  CountSettings settings_;
};

const ExperimentEntry kEntry = {"counting", "Counts",
                                []() -> std::unique_ptr<Experiment> { return std::make_unique<CountExperiment>(); }};

class RunExperiment : public ::testing::Test {
 protected:
  RunExperiment() {
    journal = {};
    write_recipe("");
  }
  void write_recipe(const std::string& toml) { write_file_atomically(recipe_, toml); }
  ExperimentRequest request(const std::vector<std::pair<std::string, std::vector<std::string>>>& settings = {}) const {
    ExperimentRequest made{recipe_, folder_ / "out", {}};
    for (const auto& [key, values] : settings) made.settings.push_back({key, values, "--set"});
    return made;
  }
  std::string text(const std::string& file) const { return read_file(folder_ / "out" / file, 1 << 20); }
  std::vector<std::string> runs() const { return journal.runs; }

  TemporaryFolder folder_;
  const std::string recipe_ = (folder_ / "counting.small.toml").string();
};

using Words = std::vector<std::string>;

TEST_F(RunExperiment, LeavesSettingsResultsAndReport) {
  const ExperimentSummary summary = run_experiment(kEntry, request());
  EXPECT_TRUE(summary.finished);
  EXPECT_EQ(summary.report.title, "Counting");
  EXPECT_EQ(runs(), (Words{"first", "count 1", "count 2", "report"}));
  const json settings = json::parse(text("settings.json"));
  EXPECT_EQ(settings.at("experiment"), "counting");
  EXPECT_EQ(settings.at("recipe"), "small");
  EXPECT_EQ(settings.at("settings").at("sizes"), json({1, 2}));
  EXPECT_FALSE(settings.at("program").at("version").get<std::string>().empty());
  EXPECT_GT(settings.at("machine").at("threads").get<int>(), 0);
  EXPECT_EQ(json::parse(text("parts/count-further/result.json")).at("result").at("value"), 3);
  for (const char* report : {"report.md", "report.html"}) {
    EXPECT_NE(text(report).find("The count is at least two."), std::string::npos);
    EXPECT_NE(text(report).find("expected at least 2: holds"), std::string::npos);
    EXPECT_NE(text(report).find("Counts from one."), std::string::npos);
  }
}

TEST_F(RunExperiment, FinishedPartsAreNotRepeated) {
  run_experiment(kEntry, request());
  fs::remove(folder_ / "out" / "parts" / "count-further" / "result.json");
  fs::remove(folder_ / "out" / "parts" / "count-further" / "partial.json");
  journal.runs.clear();
  run_experiment(kEntry, request());
  EXPECT_EQ(runs(), (Words{"count 1", "count 2", "report"}));
  journal.runs.clear();
  EXPECT_TRUE(run_experiment(kEntry, request()).finished);
  EXPECT_EQ(runs(), Words{"report"});
}

TEST_F(RunExperiment, AnInterruptedPartGoesOn) {
  journal.interrupt_at = 2;
  EXPECT_FALSE(run_experiment(kEntry, request()).finished);
  EXPECT_EQ(runs(), (Words{"first", "count 1"}));
  EXPECT_FALSE(fs::exists(folder_ / "out" / "report.md"));
  journal = {};
  EXPECT_TRUE(run_experiment(kEntry, request()).finished);
  EXPECT_EQ(runs(), (Words{"count 2", "report"}));
}

TEST_F(RunExperiment, OtherSettingsAreRefusedAndNothingChanges) {
  run_experiment(kEntry, request());
  const std::string before = text("settings.json");
  journal.runs.clear();
  const std::string error = user_error_of([&] { run_experiment(kEntry, request({{"steps", {"4"}}})); });
  EXPECT_NE(error.find("steps is 3 there and 4 here"), std::string::npos) << error;
  EXPECT_EQ(text("settings.json"), before);
  EXPECT_TRUE(runs().empty());
  EXPECT_NO_THROW(run_experiment(kEntry, request({{"steps", {"3"}}})));
}

TEST_F(RunExperiment, ForeignFoldersAreRefused) {
  fs::create_directories(folder_ / "out");
  FileWriter(folder_ / "out" / "letter.txt").finish();
  EXPECT_NE(user_error_of([&] { run_experiment(kEntry, request()); }).find("not an experiment's"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "out" / "settings.json"));
  EXPECT_NE(user_error_of([&] { run_experiment(kEntry, {recipe_, {}, {}}); }).find("--out"), std::string::npos);
}

TEST_F(RunExperiment, AnotherExperimentsFolderIsRefused) {
  run_experiment(kEntry, request());
  ExperimentEntry other = kEntry;
  other.name = "measuring";
  const std::string error = user_error_of([&] { run_experiment(other, request()); });
  EXPECT_NE(error.find("holds the experiment 'counting', not 'measuring'"), std::string::npos) << error;
}

TEST_F(RunExperiment, OneProcessPerFolder) {
  fs::create_directories(folder_ / "out");
  const FolderLock lock(folder_ / "out", "another process");
  const std::string error = user_error_of([&] { run_experiment(kEntry, request()); });
  EXPECT_NE(error.find("is in use by another process: process "), std::string::npos) << error;
}

TEST_F(RunExperiment, ADryRunTimesOneStepAndWritesNothing) {
  const std::string plan = plan_experiment(kEntry, request());
  EXPECT_EQ(runs(), Words{"timed"});
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  EXPECT_NE(plan.find("count further"), std::string::npos) << plan;
  // The second part is not timed: three times the operations take three times as long.
  EXPECT_NE(plan.find("6.0 s"), std::string::npos) << plan;
  EXPECT_NE(plan.find("8.0 s"), std::string::npos) << plan;
}

TEST_F(RunExperiment, SettingsAreTypedAndMistakesNamed) {
  const auto error_of = [&](const std::string& key, const Words& values) {
    return user_error_of([&] { prepare_experiment(kEntry, request({{key, values}})); });
  };
  EXPECT_NE(error_of("stpes", {"4"}).find("did you mean 'steps'"), std::string::npos);
  EXPECT_NE(error_of("text", {"a.txt"}).find("unknown key 'text'"), std::string::npos);
  EXPECT_NE(error_of("steps", {"many"}).find("steps is 'many', expected an integer"), std::string::npos);
  EXPECT_NE(error_of("loud", {"yes"}).find("expected true or false"), std::string::npos);
  EXPECT_NE(error_of("sizes", {"1", "x"}).find("expected an integer"), std::string::npos);
  EXPECT_NE(error_of("steps", {"0"}).find("steps is 0, expected 1"), std::string::npos);
  const auto experiment = prepare_experiment(
      kEntry, request({{"steps", {"2k"}}, {"rate", {"0.25"}}, {"loud", {"true"}}, {"sizes", {"3", "4", "5"}}}));
  EXPECT_EQ(experiment->settings().to_json(), json({{"verdicts", true},
                                                    {"steps", 2000},
                                                    {"rate", 0.25},
                                                    {"loud", true},
                                                    {"word", "one"},
                                                    {"sizes", {3, 4, 5}}}));
}

TEST_F(RunExperiment, ARecipeIsReadBeforeOtherSettings) {
  write_recipe("steps = 7\nsizes = [4, 5]\nword = \"two\"\n");
  const auto experiment = prepare_experiment(kEntry, request({{"steps", {"8"}}}));
  const json settings = experiment->settings().to_json();
  EXPECT_EQ(settings.at("steps"), 8);
  EXPECT_EQ(settings.at("sizes"), json({4, 5}));
  EXPECT_EQ(settings.at("word"), "two");
  // What is printed is a recipe with the same settings.
  write_recipe(experiment->settings().to_toml());
  EXPECT_EQ(prepare_experiment(kEntry, request())->settings().to_json(), settings);
}

TEST_F(RunExperiment, AllMistakesOfARecipeAreNamedWithTheirLines) {
  write_recipe("stpes = 7\nrate = \"fast\"\n");
  const std::string error = user_error_of([&] { prepare_experiment(kEntry, request()); });
  EXPECT_NE(error.find("counting.small.toml, line 1: unknown key 'stpes'; did you mean 'steps'"), std::string::npos)
      << error;
  EXPECT_NE(error.find("line 2: rate is 'fast', expected a number"), std::string::npos) << error;
  write_recipe("steps = \n");
  EXPECT_NE(user_error_of([&] { prepare_experiment(kEntry, request()); }).find("line 1, column"), std::string::npos);
}

TEST_F(RunExperiment, ASmallSizeGivesNoVerdict) {
  write_recipe("verdicts = false\n");
  const ExperimentSummary summary = run_experiment(kEntry, request());
  EXPECT_EQ(judge(summary.report.findings.at(0).checks), Verdict::kHolds);
  EXPECT_EQ(summary.report.verdict(summary.report.findings.at(0)), Verdict::kNone);
  for (const char* report : {"report.md", "report.html"})
    EXPECT_NE(text(report).find("No verdict at this size:"), std::string::npos) << text(report);
}

TEST(Registry, NamesAreFoundAndMistakesSuggested) {
  EXPECT_NE(user_error_of([] { find_recipe("mqar", "smok"); }).find("did you mean 'smoke'"), std::string::npos);
  EXPECT_NE(user_error_of([] { find_experiment("mqra"); }).find("did you mean 'mqar'"), std::string::npos);
  EXPECT_EQ(recipe_name(find_recipe("mqar", "cpu")), "cpu");
  EXPECT_EQ(recipe_name("mine.toml"), "mine.toml");
}

TEST(Registry, EveryExperimentHasASoundRecipeOfEverySize) {
  for (const ExperimentEntry& entry : experiment_table())
    for (const char* size : {"smoke", "cpu", "paper"}) {
      const auto experiment = prepare_experiment(entry, {size, {}, {}});
      EXPECT_FALSE(experiment->parts().empty()) << entry.name << " " << size;
      EXPECT_EQ(experiment->settings().verdicts, std::string(size) != "smoke") << entry.name;
    }
}

TEST(Registry, APresetIsTheShapeThatOtherKeysChange) {
  const TemporaryFolder folder;
  const std::string file = (folder / "mqar.mine.toml").string();
  std::string recipe = read_file(find_recipe("mqar", "paper"), 1 << 20);
  write_file_atomically(file, recipe + "layers = 6\n");  // sorts before `preset`
  const json settings = prepare_experiment(find_experiment("mqar"), {file, {}, {}})->settings().to_json();
  EXPECT_EQ(settings.at("preset"), "30m");
  EXPECT_EQ(settings.at("hidden"), 256);
  EXPECT_EQ(settings.at("window"), 128);
  EXPECT_EQ(settings.at("layers"), 6);
}

TEST(FolderName, KeepsLettersAndJoinsTheRest) {
  EXPECT_EQ(folder_name("train pmnet, seed 1"), "train-pmnet-seed-1");
  EXPECT_EQ(folder_name("../a  b"), "..-a-b");
}

}  // namespace
}  // namespace pmnet
