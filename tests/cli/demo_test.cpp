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
  for (const char* part : {"held out", "Training a PMNet", "train/bpb", "gzip -9", "[...]", "read in chunks",
                           "the same logits to the bit", "Where everything lies"})
    EXPECT_NE(result.output.find(part), std::string::npos) << part << "\n" << result.output;
  for (const char* file : {"run/run.toml", "run/metrics.jsonl", "text/held_out.txt", "memory.safetensors"})
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "out" / file)) << file;
  // A run's folder serves as a model.
  EXPECT_EQ(run_program(fmt::format("generate '{}/run' Once --max-bytes 5", out)).exit_code, 0);
  expect_user_error(fmt::format("demo '{}' --out '{}'", text, out), "there already");
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
