#include <fstream>

#include "support/files.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

void expect_row(const ProgramResult& result, const std::string& name, const std::string& value) {
  const std::string row = fmt::format("  {:<36}{:>18}\n", name, value);
  EXPECT_NE(result.output.find(row), std::string::npos) << row << "not in\n" << result.output;
}

TEST(Info, DescribesTheMachine) {
  const ProgramResult result = run_program("info --machine");
  EXPECT_EQ(result.exit_code, 0);
  for (const char* row : {"cores ", "memory ", "instruction sets ", "AMX ", "bf16               usable"})
    EXPECT_NE(result.output.find(row), std::string::npos) << row << "\n" << result.output;
}

TEST(Info, DescribesThePublishedPresets) {
  const ProgramResult large = run_program("info 119m");
  EXPECT_EQ(large.exit_code, 0);
  expect_row(large, "total", "118,970,368");
  expect_row(large, "groups in all", "85");
  const ProgramResult small = run_program("info 30m");
  EXPECT_EQ(small.exit_code, 0);
  expect_row(small, "total", "29,863,680");
}

TEST(Info, DescribesCheckpointFoldersOfEveryKind) {
  for (const char* name : {"base", "llama", "mamba"}) {
    const ProgramResult result = run_program(fmt::format("info '{}/{}'", PMNET_FIXTURES, name));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_NE(result.output.find("bytes of training memory"), std::string::npos) << result.output;
  }
}

TEST(Info, ListsThePresets) {
  const ProgramResult result = run_program("info");
  EXPECT_EQ(result.exit_code, 0);
  for (const char* row : {"119m       118,970,368", "tiny"})
    EXPECT_NE(result.output.find(row), std::string::npos) << row << "\n" << result.output;
}

TEST(Info, CountsTheBytesOfAQuantizedModel) {
  const TemporaryFolder folder;
  const std::string model = (folder / "m").string(), small = (folder / "q8").string();
  ASSERT_EQ(run_program(fmt::format("new tiny '{}'", model)).exit_code, 0);
  ASSERT_EQ(run_program(fmt::format("quantize '{}' --out '{}'", model, small)).exit_code, 0);
  const ProgramResult before = run_program(fmt::format("info '{}'", model));
  const ProgramResult after = run_program(fmt::format("info '{}'", small));
  EXPECT_EQ(before.output.find("int8"), std::string::npos) << before.output;
  EXPECT_NE(after.output.find("  int8  "), std::string::npos) << after.output;
}

// A configuration from elsewhere must not reach the terminal as commands, nor end the program where nobody listens.
TEST(Info, WarningsAreEscapedAndMayGetLost) {
  const TemporaryFolder folder;
  const std::string model = (folder / "m").string();
  ASSERT_EQ(run_program(fmt::format("new tiny '{}'", model)).exit_code, 0);
  std::string config = whole_file(folder / "m" / "config.json");
  config.insert(config.find('{') + 1, "\"bell\\u009bx\": 1,");
  std::ofstream(folder / "m" / "config.json") << config;
  const ProgramResult result = run_program(fmt::format("info '{}'", model));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("is unknown and was ignored"), std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("\xc2\x9b"), std::string::npos) << result.output;
  EXPECT_EQ(run_shell(fmt::format("'{}' info '{}' 2>/dev/full", PMNET_PROGRAM, model)).exit_code, 0);
}

TEST(Info, RefusesWhatIsNotThere) {
  expect_user_error("info 31m", "'31m' is neither a preset");
  expect_user_error("info 118m", "did you mean '119m'?");
  expect_user_error(fmt::format("info '{}/cli'", PMNET_SOURCE_DIR "/tests"), "config.json");
}

}  // namespace
}  // namespace pmnet
