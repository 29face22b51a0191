#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

class Eval : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    for (const char* architecture : {"pmnet", "transformer", "mamba"})
      ASSERT_EQ(run_program(fmt::format("new tiny '{}' --arch {}", file(architecture), architecture)).exit_code, 0);
    std::ofstream(file("one.txt")) << "A first text, of some lines.\nThis is the second.\nAnd this\nthe last\n";
    std::ofstream(file("two.txt")) << "Another text of about the same length, but of a single line only";
    std::ofstream(file("empty.txt"));
    std::ofstream(file("records.jsonl")) << "{\"text\": \"one\\nrecord\"}\n{\"text\": \"another\"}\n";
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string file(const std::string& name) { return (*folder_ / name).string(); }
  static nlohmann::json json_of(const std::string& name) {
    return nlohmann::json::parse(read_file(file(name), 1 << 24));
  }
  static void expect_refused(const std::string& arguments, const std::string& part_of_message) {
    expect_user_error("eval " + arguments, part_of_message);
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> Eval::folder_;

TEST_F(Eval, ComparesModelsAndSwitchesInOneRun) {
  const ProgramResult result = run_program(fmt::format(
      "eval PMNet='{0}' '{1}' '{2}' --model Llama='{3}' --model '{4}' --no-recurrence --zero-embeddings all,root,leaf "
      "--chunk 50 --limit 64 --per-document --json '{5}' --csv '{6}' --plot '{7}'",
      file("pmnet"), file("one.txt"), file("two.txt"), file("transformer"), file("mamba"), file("eval.json"),
      file("eval.csv"), file("eval.svg")));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const char* part :
       {"BOS is fed and not scored", "EOS is not scored", "passes of 50 bytes", "first 64 bytes", "over documents",
        "2 documents", "PMNet, no recurrence", "PMNet, root embeddings zero", "Llama", "mamba", "32 to 63", "two.txt"})
    EXPECT_NE(result.output.find(part), std::string::npos) << part << "\n" << result.output;
  EXPECT_EQ(result.output.find("Llama, no recurrence"), std::string::npos) << "it has none to switch off";

  const auto json = json_of("eval.json");
  ASSERT_EQ(json.at("models").size(), 7u);
  for (const auto& model : json.at("models")) {
    EXPECT_EQ(model.at("bytes"), 128);
    int64_t bytes = 0;
    for (const auto& point : model.at("octaves")) bytes += point.at("bytes").get<int64_t>();
    EXPECT_EQ(bytes, 128);
    // Random weights know little more than the size of the vocabulary.
    EXPECT_NEAR(model.at("bits_per_byte").at("mean").get<double>(), 8.6, 1.0);
    EXPECT_EQ(model.at("bits_per_byte").at("documents"), 2);
    EXPECT_TRUE(model.at("bits_per_byte").at("low").is_number());
  }
  EXPECT_NE(read_file(file("eval.csv"), 1 << 20).find("\"PMNet, no recurrence\",cumulative,1,64,128,2,"),
            std::string::npos);
  EXPECT_NE(read_file(file("eval.svg"), 1 << 24).find("<svg"), std::string::npos);
}

TEST_F(Eval, ReadsRecordsAndScoresTheirEnds) {
  const auto bytes_of = [&](const std::string& options) {
    const ProgramResult result = run_program(fmt::format("eval '{}' '{}' --json '{}' --force {}", file("pmnet"),
                                                         file("records.jsonl"), file("records.json"), options));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return json_of("records.json").at("models").at(0).at("bytes").get<int64_t>();
  };
  EXPECT_EQ(bytes_of(""), 17);
  EXPECT_EQ(bytes_of("--score-eos"), 19);
  EXPECT_EQ(bytes_of("--documents 1"), 10);
  EXPECT_EQ(bytes_of("--min-bytes 8"), 10);
}

TEST_F(Eval, RefusesBadInput) {
  const std::string model = file("pmnet"), text = file("one.txt");
  expect_refused(fmt::format("'{}' /no/such/text", model), "/no/such/text");
  expect_refused(fmt::format("/no/such/model '{}'", text), "/no/such/model");
  expect_refused(fmt::format("'{}' '{}'", model, file("empty.txt")), "nothing to score");
  expect_refused(fmt::format("'{}' '{}' --min-bytes 1k", model, text), "shorter than --min-bytes 1,000");
  expect_refused(fmt::format("'{}' '{}' --documents 3", model, text), "there are only 1");
  expect_refused(fmt::format("'{}' '{}' --chunk 0", model, text), "--chunk is 0");
  expect_refused(fmt::format("'{}' '{}' --zero-embeddings some", model, text), "some");
  expect_refused(fmt::format("'{}' '{}' --no-recurrence", file("mamba"), text), "none of the models is one");
  expect_refused(fmt::format("'{}' '{}' --model '{}'", model, text, model), "two models are called 'pmnet'");
  expect_refused(fmt::format("'{}' '{}' --plot '{}'", model, text, file("plot.gif")), ".gif");
  expect_refused(fmt::format("'{}' '{}' --json /", model, text), "is a folder");
}

TEST_F(Eval, RefusesModelsThatDoNotReadBytes) {
  std::filesystem::copy(file("transformer"), file("words"), std::filesystem::copy_options::recursive);
  auto config = json_of("words/config.json");
  config["vocab_size"] = 200;
  config["bos_token_id"] = 1;
  config["eos_token_id"] = 2;
  std::ofstream(file("words/config.json")) << config.dump();
  expect_refused(fmt::format("'{}' '{}'", file("words"), file("one.txt")), "vocab");
}

TEST_F(Eval, PrintsWhatItHasWhenInterrupted) {
  std::ofstream(file("large.txt")) << std::string(30'000'000, 'a');
  const ProgramResult result =
      run_shell(fmt::format("'{}' eval '{}' '{}' --threads 1 2>&1 & pid=$!; sleep 1.5; kill -INT $pid; wait $pid",
                            PMNET_PROGRAM, file("pmnet"), file("large.txt")));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("STOPPED"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("bits per byte"), std::string::npos) << result.output;
}

class Score : public Eval {
 protected:
  static std::vector<nlohmann::json> lines_of(const std::string& command) {
    const ProgramResult result = run_shell(command);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    std::vector<nlohmann::json> lines;
    std::istringstream stream(result.output);
    for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  static std::string quoted(const std::string& name) { return fmt::format("'{}'", file(name)); }
  static std::string command(const std::string& arguments) {
    return fmt::format("'{}' score '{}' {} 2>/dev/null", PMNET_PROGRAM, file("pmnet"), arguments);
  }
};

TEST_F(Score, LinesAddUpToTheText) {
  ASSERT_EQ(run_program(fmt::format("eval '{}' '{}' --json '{}'", file("pmnet"), file("one.txt"), file("text.json")))
                .exit_code,
            0);
  const double whole = json_of("text.json").at("models").at(0).at("documents").at(0).at("bits").get<double>();
  const auto lines = lines_of(command(quoted("one.txt") + " --text"));
  ASSERT_EQ(lines.size(), 4u);
  double sum = 0;
  for (const auto& line : lines) sum += line.at("bits").get<double>();
  EXPECT_NEAR(sum, whole, 1e-3);
  EXPECT_EQ(lines[1].at("line"), 2);
  EXPECT_EQ(lines[1].at("bytes"), 20);
  EXPECT_EQ(lines[1].at("text"), "This is the second.");
  EXPECT_NEAR(lines[1].at("bits_per_byte").get<double>(), lines[1].at("bits").get<double>() / 20, 1e-9);

  EXPECT_EQ(lines_of(command("- < " + quoted("one.txt"))).size(), 4u);
  EXPECT_EQ(lines_of(fmt::format("gzip -k '{0}'; {1}", file("one.txt"), command(quoted("one.txt.gz")))).size(), 4u);
  // All but "And this" and "the last" cost more than 10 bytes do.
  EXPECT_EQ(lines_of(command(quoted("one.txt") + " --threshold 100")).size(), 2u);
  const auto marked = lines_of(command(quoted("one.txt") + " --threshold 100 --mark"));
  ASSERT_EQ(marked.size(), 4u);
  EXPECT_EQ(marked[0].at("anomaly"), true);
  EXPECT_EQ(marked[2].at("anomaly"), false);
  const auto records = lines_of(command(quoted("records.jsonl") + " --field text --independent"));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].at("bytes"), 11);
}

// A memory of normal lines makes such lines cheaper, and continues exactly where it was saved.
TEST_F(Score, StartsFromASavedMemory) {
  const auto bits_of = [](const std::vector<nlohmann::json>& lines, size_t i) {
    return lines.at(i).at("bits").get<double>();
  };
  std::ofstream(file("start.log")) << "a line of a log\nanother line\n";
  std::ofstream(file("rest.log")) << "the third line\nthe last line\n";
  std::ofstream(file("all.log")) << "a line of a log\nanother line\nthe third line\nthe last line\n";
  const auto all = lines_of(command(quoted("all.log")));
  lines_of(command(quoted("start.log") + " --save-memory " + quoted("normal.memory")));
  const auto rest = lines_of(command(quoted("rest.log") + " --memory " + quoted("normal.memory")));
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_NEAR(bits_of(rest, 0), bits_of(all, 2), 1e-3);
  EXPECT_NEAR(bits_of(rest, 1), bits_of(all, 3), 1e-3);
  // Independent lines all start from it: the second costs something else than after the first.
  const auto each = lines_of(command(quoted("rest.log") + " --independent --memory " + quoted("normal.memory")));
  EXPECT_NEAR(bits_of(each, 0), bits_of(rest, 0), 1e-3);
  EXPECT_GT(std::abs(bits_of(each, 1) - bits_of(rest, 1)), 1e-3);
  expect_user_error("score " + quoted("pmnet") + " " + quoted("rest.log") + " --memory /no/such/memory",
                    "/no/such/memory");
}

TEST_F(Score, AnswersEachLineOfASlowStreamAtOnce) {
  // The answer to the first line must come before the second is written.
  const std::string pipe = file("pipe");
  const ProgramResult result = run_shell(fmt::format(
      "mkfifo '{0}'; {1} > '{2}' & exec 9>'{0}'; echo first >&9; for i in $(seq 100); do [ -s '{2}' ] && break; sleep "
      "0.1; done; cat '{2}'; exec 9>&-; wait",
      pipe, command(quoted("pipe") + " --text"), file("answers")));
  EXPECT_NE(result.output.find("\"text\":\"first\""), std::string::npos) << result.output;
}

TEST_F(Score, EndsQuietlyWhenNobodyReads) {
  const ProgramResult result = run_shell(fmt::format(
      "(yes line | '{}' score '{}' 2>&1 1>&3; echo exit $? >&2) 2>&1 3>&1 | head -n 1", PMNET_PROGRAM, file("pmnet")));
  EXPECT_EQ(result.output.find("pmnet:"), std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("{\"line\":1,"), 0u) << result.output;
}

TEST_F(Score, RefusesBadInput) {
  const std::string model = "score " + quoted("pmnet") + " ";
  expect_user_error(model + "/no/such/file", "/no/such/file");
  expect_user_error(model + "--mark < /dev/null", "--mark needs --threshold");
  expect_user_error(model + quoted("one.txt") + " --field text", "record 1");
  expect_user_error(model + quoted("records.jsonl") + " --field txt", "no text in a field 'txt'");
  expect_user_error("score /no/such/model < /dev/null", "/no/such/model");
}

}  // namespace
}  // namespace pmnet
