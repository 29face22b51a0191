#include <filesystem>
#include <fstream>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

std::string in(const TemporaryFolder& folder, const std::string& name) { return (folder / name).string(); }

TEST(ExperimentCommand, MistakesAreNamedAndNothingIsMade) {
  const TemporaryFolder folder;
  const std::string out = in(folder, "out");
  expect_user_error("experiment mqra --out " + out, "did you mean 'mqar'");
  expect_user_error("experiment mqar --recipe smok --out " + out, "did you mean 'smoke'");
  expect_user_error("experiment mqar --recipe smoke --out " + out + " --set stpes=3", "did you mean 'steps'");
  expect_user_error("experiment mqar --recipe smoke --out " + out + " --set steps", "expected key=value");
  expect_user_error("experiment mqar --recipe smoke --out " + out + " --seeds 0", "seeds is 0");
  expect_user_error("experiment mqar --recipe smoke --out " + out + " --text a.txt", "unknown key 'text'");
  expect_user_error("experiment copy --recipe smoke --out " + out + " --reading loose", "reading is 'loose'");
  expect_user_error("experiment mqar --recipe smoke", "--out is missing");
  expect_user_error("experiment all --recipe smoke --out " + out + " --set nonsense=1", "'nonsense'");
  EXPECT_FALSE(fs::exists(out));
}

TEST(ExperimentCommand, RunsOnceAndRefusesOtherSettings) {
  const TemporaryFolder folder;
  const std::string command =
      "experiment copy --recipe smoke --reading strict --set steps=4 --out " + in(folder, "out");
  const ProgramResult first = run_program(command);
  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_NE(first.output.find("0 finished"), std::string::npos) << first.output;
  EXPECT_NE(first.output.find("strict reading (figure 4)"), std::string::npos) << first.output;
  EXPECT_TRUE(fs::exists(folder / "out" / "report.html"));
  const ProgramResult second = run_program(command);
  EXPECT_EQ(second.exit_code, 0) << second.output;
  EXPECT_NE(second.output.find("4 parts, 4 finished"), std::string::npos) << second.output;
  expect_user_error(command + " --seeds 2", "seeds is 1 there and 2 here");
}

// In the order of the table: some read with the models that others have trained.
TEST(ExperimentCommand, AllOfThemRunInOrder) {
  const TemporaryFolder folder;
  const ProgramResult all = run_program("experiment all --recipe smoke --set steps=4 --out " + in(folder, "out"));
  ASSERT_EQ(all.exit_code, 0) << all.output;
  for (const char* name : {"parity", "modular", "mqar", "induction", "selective-copy", "in-context-recall", "needle",
                           "copy", "compare", "long-context", "anchors", "stability"})
    EXPECT_TRUE(fs::exists(folder / "out" / name / "report.html")) << name << "\n" << all.output;
  EXPECT_TRUE(fs::exists(folder / "out" / "report.html"));
  EXPECT_TRUE(fs::exists(folder / "out" / "report.md"));
}

TEST(ExperimentCommand, SettingsArePrintedAndReadBack) {
  const TemporaryFolder folder;
  const ProgramResult printed = run_program("experiment copy --recipe smoke --print-settings --set steps=7");
  ASSERT_EQ(printed.exit_code, 0) << printed.output;
  EXPECT_NE(printed.output.find("steps = 7 "), std::string::npos) << printed.output;
  const std::string recipe = in(folder, "mine.toml");
  std::ofstream(recipe) << printed.output;
  const ProgramResult again = run_program("experiment copy --print-settings --recipe " + recipe);
  EXPECT_EQ(again.output, printed.output);
  expect_user_error("experiment mqar --print-settings --recipe " + recipe, "unknown key 'reading'");
}

TEST(ExperimentCommand, ADryRunPrintsThePlanAndWritesNothing) {
  const TemporaryFolder folder;
  const ProgramResult plan = run_program("experiment mqar --recipe smoke --dry-run --out " + in(folder, "out"));
  EXPECT_EQ(plan.exit_code, 0) << plan.output;
  EXPECT_NE(plan.output.find("train pmnet, gap, seed 1"), std::string::npos) << plan.output;
  EXPECT_NE(plan.output.find("parameters"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(ExperimentCommand, ASignalStopsItAndTheSameCommandResumesIt) {
  const TemporaryFolder folder;
  const std::string arguments =
      "experiment mqar --recipe smoke --set steps=2000 --set stop_at=0 --threads 1 --out " + in(folder, "out");
  const fs::path training = folder / "out" / "parts" / "train-pmnet-gap-seed-1";
  const ProgramResult stopped = run_shell(
      fmt::format("'{}' {} 2>&1 & pid=$!; for i in $(seq 300); do [ -e '{}' ] && break; sleep 0.1; done; sleep 0.5; "
                  "kill -TERM $pid; wait $pid",
                  PMNET_PROGRAM, arguments, (training / "metrics.jsonl").string()));
  EXPECT_EQ(stopped.exit_code, 0) << stopped.output;
  EXPECT_NE(stopped.output.find("stopped; the same command resumes it"), std::string::npos) << stopped.output;
  EXPECT_TRUE(fs::exists(training / "ckpt")) << "what was learned is kept";
  EXPECT_FALSE(fs::exists(folder / "out" / "report.html"));
}

}  // namespace
}  // namespace pmnet
