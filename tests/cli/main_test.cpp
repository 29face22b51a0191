#include <torch/version.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
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
  EXPECT_TRUE(says(result, "torch " TORCH_VERSION)) << result.output;
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
  expect_user_error("generate m --temp 0.5", "unknown option '--temp'; did you mean '--temperature'?");
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
  // No more threads than cores.
  const size_t cores = std::min<size_t>(3, std::thread::hardware_concurrency());
  EXPECT_TRUE(says(three, fmt::format("threads            {}\n", cores))) << three.output;
}

TEST(Program, RefusesBadThreads) {
  expect_user_error("--threads 0 info --machine", "--threads is 0; expected a number from 1");
  expect_user_error("--threads -2 info --machine", "expected a number from 1");
  expect_user_error("--threads 99999999999 info --machine", "--threads");
  expect_user_error("--threads 2x info --machine", "--threads");
  expect_user_error("info --machine --threads", "--threads");
}

TEST(Program, HasHelpAndVersionAsCommands) {
  const ProgramResult general = run_program("help");
  EXPECT_EQ(general.exit_code, 0);
  EXPECT_EQ(general.output, run_program("--help").output);
  const ProgramResult stat = run_program("help data stat");
  EXPECT_EQ(stat.exit_code, 0);
  EXPECT_TRUE(says(stat, "--split-on")) << stat.output;
  EXPECT_EQ(run_program("version").output, run_program("--version").output);
  expect_user_error("help inof", "unknown command 'inof'; did you mean 'info'?");
  expect_user_error("help data stats", "unknown command 'stats'; did you mean 'stat'?");
}

TEST(Program, CompletesAPrefixInItsSuggestion) {
  expect_user_error("generate m x --temp 0.5", "unknown option '--temp'; did you mean '--temperature'?");
}

// An error message that cannot be printed must not turn into an abort.
TEST(Program, SurvivesAStandardErrorThatIsClosedOrFull) {
  for (const char* sink : {"2>&-", "2>/dev/full"})
    EXPECT_EQ(run_shell(fmt::format("'{}' info nosuch {}", PMNET_PROGRAM, sink)).exit_code, 2) << sink;
  EXPECT_EQ(run_shell(fmt::format("'{}' 2>/dev/full", PMNET_PROGRAM)).exit_code, 2);
  const TemporaryFolder folder;
  const std::string model = (folder / "model").string();
  ASSERT_EQ(run_program(fmt::format("new tiny '{}'", model)).exit_code, 0);
  for (const char* sink : {"2>&-", "2>/dev/full"})
    EXPECT_EQ(run_shell(fmt::format("'{}' generate '{}' x --max-bytes 5 {}", PMNET_PROGRAM, model, sink)).exit_code, 0)
        << sink;
}

TEST(Program, NoticesThatItsOutputCannotBeWritten) {
  for (const char* arguments : {"info tiny", "--help", "help", "version", "reference cli"}) {
    const ProgramResult result = run_shell(fmt::format("'{}' {} 2>&1 >/dev/full", PMNET_PROGRAM, arguments));
    EXPECT_EQ(result.exit_code, 2) << arguments << result.output;
    EXPECT_TRUE(says(result, "cannot write to standard output: No space left")) << arguments << result.output;
  }
}

// Names that the system refuses are mistakes of the user: one sentence, no C++.
TEST(Program, ExplainsNamesThatCannotBeUsed) {
  const TemporaryFolder folder;
  const std::string model = (folder / "model").string(), text = (folder / "text").string();
  ASSERT_EQ(run_program(fmt::format("new tiny '{}'", model)).exit_code, 0);
  std::ofstream(text) << "A text.";
  const std::string longest(300, 'n');
  for (const std::string& arguments :
       {fmt::format("eval '{}' '{}'", longest, text), fmt::format("eval '{}' '{}' --json {}", model, text, longest),
        fmt::format("generate '{}' x --save-memory {}", model, longest), fmt::format("generate {} x", longest),
        fmt::format("quantize '{}' --out {}", model, longest), fmt::format("quantize '{}' --out ''", model),
        fmt::format("score {} '{}'", longest, text), fmt::format("inspect '{}' {}", model, longest)}) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments << "\n" << result.output;
    EXPECT_FALSE(says(result, "filesystem error")) << result.output;
  }
}

// One policy: nothing that exists is replaced without --force, and an input never.
TEST(Program, ReplacesNothingUnasked) {
  const TemporaryFolder folder;
  const auto file = [&](const std::string& name) { return (folder / name).string(); };
  const std::string model = file("model"), text = file("text"), taken = file("taken");
  ASSERT_EQ(run_program(fmt::format("new tiny '{}' --seed 1", model)).exit_code, 0);
  ASSERT_EQ(run_program(fmt::format("new tiny '{}' --seed 2", file("other"))).exit_code, 0);
  std::ofstream(text) << "A text to read.";
  std::ofstream(taken) << "precious";
  const auto weights = [&] { return read_file(folder / "model/model.safetensors", 1 << 24); };
  const std::string before = weights();

  for (const std::string& arguments :
       {fmt::format("eval '{}' '{}' --json '{}'", model, text, taken),
        fmt::format("eval '{}' '{}' --csv '{}'", model, text, taken),
        fmt::format("inspect '{}' '{}' --out '{}'", model, text, taken),
        fmt::format("generate '{}' x --max-bytes 1 --save-memory '{}'", model, taken),
        fmt::format("score '{}' '{}' --save-memory '{}'", model, text, taken),
        fmt::format("data stories '{}' --bytes 1k", taken), fmt::format("bench --preset tiny --json '{}'", taken),
        fmt::format("quantize '{}' --out '{}'", model, file("other"))})
    expect_user_error(arguments, "already exists");
  EXPECT_EQ(read_file(taken, 100), "precious");

  std::filesystem::create_symlink(model, folder / "link");
  for (const std::string& out : {model, file("link")})
    expect_user_error(fmt::format("quantize '{}' --out '{}' --force", model, out), "input of this command");
  expect_user_error(fmt::format("eval '{}' '{}' --json '{}' --force", model, text, text), "input of this command");
  EXPECT_EQ(weights(), before);

  EXPECT_EQ(run_program(fmt::format("eval '{}' '{}' --json '{}' --force", model, text, taken)).exit_code, 0);
  EXPECT_NE(read_file(taken, 1 << 20), "precious");
  EXPECT_EQ(run_program(fmt::format("quantize '{}' '{}' --force", model, file("other"))).exit_code, 0);
}

TEST(Program, CreatesNoFoldersAboveAFile) {
  const TemporaryFolder folder;
  const std::string model = (folder / "model").string(), text = (folder / "text").string();
  ASSERT_EQ(run_program(fmt::format("new tiny '{}'", model)).exit_code, 0);
  std::ofstream(text) << "A text to read.";
  expect_user_error(fmt::format("inspect '{}' '{}' --out '{}'", model, text, (folder / "nosuch/x.html").string()),
                    "does not exist; create it first");
  EXPECT_FALSE(std::filesystem::exists(folder / "nosuch"));
}

TEST(Program, WorksWithModelsOfEveryArchitecture) {
  const TemporaryFolder folder;
  const std::string text = (folder / "text").string();
  std::ofstream(text) << "The first line.\nThe second line.\n";
  for (const std::string architecture : {"pmnet", "transformer", "mamba"}) {
    const std::string model = (folder / architecture).string(), memory = model + ".memory", small = model + "-int8";
    ASSERT_EQ(run_program(fmt::format("new tiny '{}' --arch {}", model, architecture)).exit_code, 0);
    ASSERT_EQ(run_program(fmt::format("quantize '{}' '{}' --text '{}'", model, small, text)).exit_code, 0);
    for (const std::string& each : {model, small}) {
      for (const std::string& arguments :
           {fmt::format("info '{}'", each), fmt::format("eval '{}' '{}'", each, text),
            fmt::format("score '{}' '{}' --save-memory '{}' --force", each, text, memory),
            fmt::format("score '{}' '{}' --memory '{}' --independent", each, text, memory),
            fmt::format("generate '{}' 'The' --max-bytes 3 --memory '{}'", each, memory)}) {
        const ProgramResult result = run_program(arguments);
        EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.output;
      }
      const ProgramResult page = run_program(fmt::format("inspect '{}' '{}' --out '{}.html'", each, text, each));
      EXPECT_EQ(page.exit_code, architecture == "pmnet" ? 0 : 2) << page.output;
    }
  }
}

// The page names every command that the help names, with its options.
TEST(Program, PrintsAReferenceOfItsCommands) {
  const ProgramResult page = run_program("reference cli");
  ASSERT_EQ(page.exit_code, 0);
  for (const char* part : {"# Command line\n", "## pmnet bench\n", "## pmnet data stat\n", "| `--threads N` |",
                           "| `--temperature X` | Sampling temperature; 0 is greedy | `1` |", "| required |"})
    EXPECT_TRUE(says(page, part)) << part;
  EXPECT_FALSE(says(page, "bench-case")) << "hidden";
}

TEST(Program, TellsOfALimitOnFileSizes) {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_shell(fmt::format("ulimit -f 16; '{}' new tiny '{}' 2>&1", PMNET_PROGRAM, (folder / "model").string()));
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_TRUE(says(result, "model.safetensors: cannot write: File too large")) << result.output;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace pmnet
