#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

// One comparison for all tests: the other experiments read with its models.
class TextExperiments : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    compared_ = run("compare", "");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static fs::path out(const std::string& name) { return *folder_ / name; }
  static std::string command(const std::string& name, const std::string& options) {
    return fmt::format("experiment {} --recipe smoke --out '{}' {}", name, out(name).string(), options);
  }
  static ProgramResult run(const std::string& name, const std::string& options) {
    return run_program(command(name, options));
  }
  static void expect_report(const std::string& name, const std::vector<std::string>& files,
                            const std::vector<std::string>& words) {
    for (const std::string& file : files) EXPECT_TRUE(fs::exists(out(name) / file)) << file;
    const std::string html = read_file(out(name) / "report.html", 1 << 26);
    const std::string markdown = read_file(out(name) / "report.md", 1 << 24);
    for (const std::string& word : words) {
      EXPECT_NE(html.find(word), std::string::npos) << word;
      EXPECT_NE(markdown.find(word), std::string::npos) << word;
    }
    EXPECT_NE(html.find("control: "), std::string::npos);
    EXPECT_NE(html.find("No verdict at this size"), std::string::npos);
  }
  static void expect_nothing_repeated(const std::string& name) {
    std::map<fs::path, fs::file_time_type> times;
    for (const auto& entry : fs::recursive_directory_iterator(out(name) / "parts"))
      if (entry.path().filename() == "result.json") times[entry.path()] = fs::last_write_time(entry.path());
    EXPECT_FALSE(times.empty());
    const ProgramResult again = run(name, "");
    EXPECT_EQ(again.exit_code, 0) << again.output;
    for (const auto& [file, time] : times) EXPECT_EQ(fs::last_write_time(file), time) << file;
  }

  static std::unique_ptr<TemporaryFolder> folder_;
  static ProgramResult compared_;
};
std::unique_ptr<TemporaryFolder> TextExperiments::folder_;
ProgramResult TextExperiments::compared_;

TEST_F(TextExperiments, CompareTrainsOnTheSameBatchesAndDrawsSixCurves) {
  ASSERT_EQ(compared_.exit_code, 0) << compared_.output;
  expect_report("compare", {"position.svg", "cumulative.svg", "difference.svg", "training.svg", "curves.csv"},
                {"PMNet", "No Recurrence", "No Memory / No Recurrence", "No Memory / Recurrence", "Transformer",
                 "Mamba", "byte-identical batches", "Parameters agree within 2%", "over 3 documents"});
  expect_nothing_repeated("compare");
}

TEST_F(TextExperiments, CompareRefusesOtherSettings) {
  ASSERT_EQ(compared_.exit_code, 0) << compared_.output;
  expect_user_error(command("compare", "--set steps=13"), "steps is 12 there and 13 here");
  expect_user_error(command("compare", "--set context=4000"), "bytes is 1024");
  expect_user_error(command("compare", "--text /no/such/text"), "text is given and eval_text is not");
  expect_user_error("experiment compare --recipe smoke --dry-run --set memory=32",
                    "mamba cannot be given PMNet's number of parameters");
  EXPECT_TRUE(fs::exists(out("compare") / "report.html"));
}

TEST_F(TextExperiments, LongContextReadsWithTheModelsOfTheComparison) {
  ASSERT_EQ(compared_.exit_code, 0) << compared_.output;
  const ProgramResult result = run("long-context", "");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  expect_report("long-context",
                {"position.svg", "cumulative.svg", "time.svg", "state.svg", "curves.csv", "throughput.csv"},
                {"PMNet, No Recurrence", "Transformer", "Mamba", "reads only the first 1,024 bytes",
                 "bytes of the state at the end"});
  expect_nothing_repeated("long-context");
  expect_user_error(command("long-context", "--set documents=2"), "documents is 3 there and 2 here");
}

TEST_F(TextExperiments, LongContextTakesGivenModelsAndTexts) {
  const std::string model = (*folder_ / "model").string(), text = (*folder_ / "text").string();
  ASSERT_EQ(run_program(fmt::format("new tiny '{}'", model)).exit_code, 0);
  fs::create_directories(text);
  for (const char* name : {"a", "b", "short"})
    std::ofstream(fs::path(text) / name) << std::string(*name == 's' ? 100 : 600, *name);
  const auto options = [&](const std::string& folder_name, const std::string& more) {
    return fmt::format(
        "experiment long-context --recipe smoke --out '{}' --model Mine='{}' --text '{}' --set "
        "bytes=512 --set trained=64 {}",
        out(folder_name).string(), model, text, more);
  };
  expect_user_error(options("refused", "--set documents=3"), "only 2 document(s)");
  const ProgramResult result = run_program(options("given", "--set documents=2"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const std::string report = read_file(out("given") / "report.md", 1 << 24);
  EXPECT_NE(report.find("Mine, No Recurrence"), std::string::npos);
  EXPECT_EQ(report.find("Mamba"), std::string::npos);
}

TEST_F(TextExperiments, AnchorsMeasureWhatEmbeddingsAreWorth) {
  ASSERT_EQ(compared_.exit_code, 0) << compared_.output;
  const ProgramResult result = run("anchors", "");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  expect_report("anchors", {"excess.svg", "excess.csv", "routing.svg", "routing.csv"},
                {"No Leaf", "No Root", "No Embeddings", "entropy", "Route changes", "over 3 documents"});
  expect_nothing_repeated("anchors");
}

TEST_F(TextExperiments, NeedModels) {
  const TemporaryFolder alone;
  for (const char* name : {"long-context", "anchors"})
    expect_user_error(fmt::format("experiment {} --recipe smoke --out '{}'", name, (alone / name).string()),
                      "give models with --model LABEL=DIR, or train them first");
  expect_user_error(command("anchors", "--model X=/no/such/model"), "/no/such/model");
}

TEST_F(TextExperiments, DryRunPrintsThePlanAndWritesNothing) {
  const TemporaryFolder alone;
  const ProgramResult result =
      run_program(fmt::format("experiment compare --recipe smoke --dry-run --out '{}'", (alone / "plan").string()));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("train mamba, seed 1"), std::string::npos) << result.output;
  EXPECT_FALSE(fs::exists(alone / "plan"));
}

TEST_F(TextExperiments, AnInterruptedReadingGoesOn) {
  ASSERT_EQ(compared_.exit_code, 0) << compared_.output;
  const std::string model = (out("compare") / "parts/train-pmnet-seed-1/model").string();
  const std::string arguments = fmt::format(
      "experiment anchors --recipe smoke --out '{}' --model M='{}' --set bytes=6000 --set documents=12 --threads 1",
      out("interrupted").string(), model);
  const ProgramResult stopped = run_shell(fmt::format(
      "'{0}' {1} > /dev/null 2>&1 & pid=$!; for i in $(seq 200); do [ -e '{2}' ] && break; sleep 0.1; done; kill -INT "
      "$pid; wait $pid",
      PMNET_PROGRAM, arguments, (out("interrupted") / "parts/read-without-embeddings-seed-1/partial.json").string()));
  EXPECT_EQ(stopped.exit_code, 0);
  ASSERT_FALSE(fs::exists(out("interrupted") / "parts/read-without-embeddings-seed-1/result.json"));
  const ProgramResult resumed = run_program(arguments);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  const auto result = nlohmann::json::parse(
      read_file(out("interrupted") / "parts/read-without-embeddings-seed-1/result.json", 1 << 26));
  EXPECT_EQ(result.at("result").at("scores").at("documents").size(), 12u);
}

}  // namespace
}  // namespace pmnet
