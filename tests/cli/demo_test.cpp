#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/file.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

TEST(Demo, TrainsMeasuresWritesAndStreams) {
  const TemporaryFolder folder;
  const std::string text = (folder / "tales.txt").string(), out = (folder / "out").string();
  ASSERT_EQ(run_program(fmt::format("data stories '{}' --bytes 60k", text)).exit_code, 0);
  const ProgramResult result =
      run_program(fmt::format("demo '{}' --out '{}' --preset tiny --seconds 2 --threads 1", text, out));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  for (const char* part : {"held out", "Training a PMNet", "Bits per byte", "gzip -9", "[...]", "read in chunks",
                           "with memory recurrence off", "the model that ships", "The memory saves",
                           "the same logits, bit for bit", "Files:"})
    EXPECT_NE(result.output.find(part), std::string::npos) << part << "\n" << result.output;
  for (const char* file : {"run/run.toml", "run/metrics.jsonl", "text/held_out.txt", "memory.safetensors"})
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "out" / file)) << file;
  // The commands that it suggests work.
  int suggested = 0;
  std::istringstream lines(result.output.substr(result.output.find("Try:\n") + 5));
  for (std::string line; std::getline(lines, line); ++suggested)
    EXPECT_EQ(run_shell(line + " --max-bytes 5 2>&1").exit_code, 0) << line;
  EXPECT_EQ(suggested, 2) << result.output;
  // One validation at the end, not two.
  std::istringstream entries(read_file(folder.path() / "out/run/metrics.jsonl", 1 << 20));
  std::vector<int64_t> validated;
  for (std::string line; std::getline(entries, line);) {
    const auto entry = nlohmann::json::parse(line);
    if (entry.contains("val/bpb")) validated.push_back(entry.at("step").get<int64_t>());
  }
  EXPECT_EQ(validated.size(), 6u);
  expect_user_error(fmt::format("demo '{}' --out '{}'", text, out), "already exists");
}

TEST(Demo, RefusesWhatCannotWork) {
  const TemporaryFolder folder;
  const std::string text = (folder / "short.txt").string(), out = (folder / "out").string();
  ASSERT_EQ(run_program(fmt::format("data stories '{}' --bytes 3k", text)).exit_code, 0);
  expect_user_error(fmt::format("demo '{}' --out '{}'", text, out), "name a longer text");
  expect_user_error(fmt::format("demo /no/such/text --out '{}'", out), "/no/such/text");
  expect_user_error("demo --seconds 0", "--seconds is 0");
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

}  // namespace
}  // namespace pmnet
