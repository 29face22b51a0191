#include <fstream>

#include "support/errors.h"
#include "support/files.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

void expect_output(const ProgramResult& result, std::initializer_list<std::string> parts) {
  EXPECT_EQ(result.exit_code, 0) << result.output;
  expect_mentions(result.output, parts);
}

TEST(Data, StoriesAreWrittenExaminedAndPacked) {
  const TemporaryFolder folder;
  const std::string here = folder.path().string();
  expect_output(run_program(fmt::format("data stories {}/a.txt --bytes 200k --seed 3", here)),
                {"a.txt", "stories", "--split-on"});
  expect_output(run_program(fmt::format("data stories {}/b.jsonl --bytes 200k --seed 3 --length 1000", here)),
                {"b.jsonl"});
  expect_output(run_program(fmt::format("data stat {}/a.txt {}/b.jsonl --split-on '\\n\\n\\n'", here, here)),
                {"jsonl", "plain", "total", "document bytes", "sample"});
  expect_output(run_program(fmt::format("data pack {}/b.jsonl --out {}/b.pmshard", here, here)),
                {"b.pmshard", "documents"});
  expect_output(run_program(fmt::format("data stat {}/b.pmshard", here)), {"pmshard"});
  expect_user_error(fmt::format("data pack {}/b.jsonl --out {}/b.pmshard", here, here), "--force");
  expect_output(run_program(fmt::format("data pack {}/b.jsonl --out {}/b.pmshard --force", here, here)), {"b.pmshard"});
  expect_user_error(fmt::format("data stories {}/a.txt", here), "a.txt");
}

TEST(Data, StatSaysWhatIsSkippedAndRefused) {
  const TemporaryFolder folder;
  const std::string here = folder.path().string();
  write_file(folder / "a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"\"}\n{\"prompt\": \"p\", \"completion\": \"c\"}\n");
  write_file(folder / "b.bin", "\xFF\xFE");
  expect_output(run_program(fmt::format("data stat {}", here)),
                {"skipped  1 x empty or null text", "ids 256 and 257", "prompts  1 documents"});
  write_file(folder / "c.gz", "not gzip");
  const ProgramResult result = run_program(fmt::format("data stat {}", here));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("1 of 3 files cannot be read"), std::string::npos) << result.output;
}

TEST(Data, MistakesAreTold) {
  const TemporaryFolder folder;
  write_file(folder / "a.jsonl", "{\"body\": \"one\"}\n");
  write_file(folder / "empty.txt", "");
  const std::string here = folder.path().string();
  expect_user_error("data stat /no/such/place", "/no/such/place");
  expect_user_error(fmt::format("data pack {}/a.jsonl --out {}/a.pmshard", here, here), "--text-field");
  expect_user_error(fmt::format("data pack {}/empty.txt --out {}/a.pmshard", here, here), "the corpus is empty");
  expect_user_error(fmt::format("data pack {}/a.jsonl --out {}/a.bin", here, here), ".pmshard");
  expect_user_error(fmt::format("data stat {}/a.jsonl --split-on '\\q'", here), "escape");
  expect_user_error(fmt::format("data stories {}/s.txt --seed -1", here), "invalid seed '-1'");
  expect_user_error(fmt::format("data stories {}/s.txt --bytes -5", here), "--bytes is -5");
  expect_user_error(fmt::format("data stories {}/s.txt --bytes 99999999999999999999", here), "is not a size");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.pmshard"));
}

TEST(Plot, DrawsOneAndSeveralRuns) {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "gnuplot is not installed";
  const TemporaryFolder folder;
  const std::string here = folder.path().string();
  for (const char* name : {"one", "two"}) {
    std::filesystem::create_directory(folder / name);
    std::ofstream log(folder / name / "metrics.jsonl");
    for (int step = 1; step <= 4000; ++step)
      log << fmt::format("{{\"step\": {}, \"train/bpb\": {}, \"train/grad_norm\": 1.5}}\n", step, 8.0 / step);
  }
  expect_output(run_program(fmt::format("plot {}/one", here)), {"one/curves.png", "one/curves.svg"});
  expect_output(run_program(fmt::format("plot {}/one {}/two --out {}/both.svg --log-y", here, here, here)),
                {"both.svg"});
  expect_user_error(fmt::format("plot {}/one --out {}/both.svg", here, here), "already exists");
  std::ifstream picture(folder / "both.svg");
  const std::string svg{std::istreambuf_iterator<char>(picture), {}};
  for (const char* part : {"one, training", "two, training", "Gradient norm"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  expect_output(run_program(fmt::format("plot {}/one --metric train/grad_norm --out {}/norm.png", here, here)),
                {"norm.png"});
  expect_output(run_program(fmt::format("plot {}/two --out {}/norm.png --force", here, here)), {"norm.png"});
  expect_user_error(fmt::format("plot {}/one --metric val/bpb", here), "train/grad_norm");
  expect_user_error(fmt::format("plot {}", here), "metrics.jsonl");
}

}  // namespace
}  // namespace pmnet
