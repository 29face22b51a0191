#include <filesystem>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

bool says(const ProgramResult& result, const std::string& text) {
  return result.output.find(text) != std::string::npos;
}

TEST(Program, TellsItsVersion) {
  const ProgramResult result = run_program("--version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(says(result, "pmnet 0.")) << result.output;
  EXPECT_TRUE(says(result, "torch 2.13.")) << result.output;
  EXPECT_TRUE(says(result, "built with ")) << result.output;
}

TEST(Program, HelpsEverywhere) {
  const ProgramResult general = run_program("--help");
  EXPECT_EQ(general.exit_code, 0);
  EXPECT_TRUE(says(general, "--threads")) << general.output;
  EXPECT_TRUE(says(general, "info")) << general.output;
  const ProgramResult command = run_program("info --help");
  EXPECT_EQ(command.exit_code, 0);
  EXPECT_TRUE(says(command, "--machine")) << command.output;
}

TEST(Program, ShowsHelpWithoutACommand) {
  const ProgramResult result = run_program("");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(says(result, "--help")) << result.output;
}

TEST(Program, SuggestsTheNearestCommandAndOption) {
  expect_user_error("inof", "unknown command 'inof'; did you mean 'info'?");
  expect_user_error("zzzzzz", "unknown command 'zzzzzz'; see 'pmnet --help'");
  expect_user_error("info --machin", "unknown option '--machin'; did you mean '--machine'?");
  expect_user_error("info --thread=2 --machine", "unknown option '--thread'; did you mean '--threads'?");
  expect_user_error("--versoin", "did you mean '--version'?");
  expect_user_error("info a b", "unexpected argument 'b' to 'pmnet info'");
}

TEST(Program, TakesThreadsBeforeAndAfterTheCommand) {
  for (const char* arguments :
       {"--threads 1 info --machine", "info --machine --threads 1", "info --threads=1 --machine"}) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_TRUE(says(result, "threads            1\n")) << result.output;
  }
  const ProgramResult three = run_program("info --machine --threads 3");
  EXPECT_TRUE(says(three, "threads            3\n")) << three.output;
}

TEST(Program, RefusesBadThreads) {
  expect_user_error("--threads 0 info --machine", "--threads is 0; expected a number from 1");
  expect_user_error("--threads -2 info --machine", "expected a number from 1");
  expect_user_error("--threads 99999999999 info --machine", "--threads");
  expect_user_error("--threads 2x info --machine", "--threads");
  expect_user_error("info --machine --threads", "--threads");
}

TEST(Program, TellsOfALimitOnFileSizes) {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_shell(fmt::format("ulimit -f 16; '{}' new tiny '{}' 2>&1", PMNET_PROGRAM, (folder / "model").string()));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_TRUE(says(result, "model.safetensors: File too large")) << result.output;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace pmnet
