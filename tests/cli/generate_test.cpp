#include <fstream>
#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

class Generate : public testing::Test {
 protected:
  void SetUp() override {
    const ProgramResult made = run_program(fmt::format("new tiny '{}' --seed 3", model()));
    ASSERT_EQ(made.exit_code, 0) << made.output;
  }

  std::string model() const { return (folder_ / "model").string(); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  // Standard output alone.
  std::string text_of(const std::string& arguments, const std::string& input = "/dev/null") const {
    const ProgramResult result = run_shell(
        fmt::format("'{}' generate '{}' {} --threads 1 < '{}' 2>/dev/null", PMNET_PROGRAM, model(), arguments, input));
    EXPECT_EQ(result.exit_code, 0) << arguments;
    return result.output;
  }
  void expect_refused(const std::string& arguments, const std::string& part_of_message) const {
    expect_user_error(fmt::format("generate '{}' {} < /dev/null", model(), arguments), part_of_message);
  }

  TemporaryFolder folder_;
};

TEST_F(Generate, IsDeterminedByTheSeed) {
  const std::string options = "Once --raw --max-bytes 40 --top-k 5";  // EOS is not among the five
  const std::string text = text_of(options + " --seed 7");
  EXPECT_EQ(text.size(), 40u);
  EXPECT_EQ(text_of(options + " --seed 7"), text);
  EXPECT_NE(text_of(options + " --seed 8"), text);
  EXPECT_EQ(text_of("Once --seed 8 --temperature 0 --raw"), text_of("Once --seed 9 --top-k 1 --raw"));
}

TEST_F(Generate, TakesThePromptFromArgumentFileAndStandardInputAlike) {
  std::string prompt;
  while (prompt.size() < 3000) prompt += fmt::format("Line {} of a prompt. ", prompt.size());
  std::ofstream(file("prompt.txt")) << prompt;
  const std::string options = "--seed 1 --raw --max-bytes 30";
  const std::string text = text_of(fmt::format("'{}' {}", prompt, options));
  EXPECT_EQ(text_of(fmt::format("--prompt-file '{}' {}", file("prompt.txt"), options)), text);
  EXPECT_EQ(text_of(options, file("prompt.txt")), text);
  EXPECT_EQ(text_of("- " + options, file("prompt.txt")), text);
  const ProgramResult slowly = run_shell(fmt::format(
      "(head -c 1100 '{0}'; sleep 0.3; tail -c +1101 '{0}') | '{1}' generate '{2}' {3} --threads 1 2>/dev/null",
      file("prompt.txt"), PMNET_PROGRAM, model(), options));
  EXPECT_EQ(slowly.output, text);
  EXPECT_EQ(text_of("'' " + options), text_of(options));  // empty: start of a text
}

TEST_F(Generate, WritesTextUnlessAskedForBytes) {
  const std::string raw = text_of("'' --seed 2 --raw --max-bytes 200 --temperature 5");
  const std::string text = text_of("'' --seed 2 --max-bytes 200 --temperature 5");
  EXPECT_NE(raw, text);  // random bytes are hardly ever UTF-8
  EXPECT_EQ(raw.find("\xEF\xBF\xBD"), std::string::npos);
  EXPECT_NE(text.find("\xEF\xBF\xBD"), std::string::npos);
}

TEST_F(Generate, ContinuesFromASavedMemory) {
  const std::string memory = file("memory.safetensors");
  const std::string options = "--seed 4 --raw --top-k 3";  // EOS is not among the three
  const std::string whole = text_of("'A beginning' --max-bytes 40 " + options);
  ASSERT_EQ(whole.size(), 40u);
  const std::string first = text_of(fmt::format("'A beginning' --max-bytes 15 {} --save-memory '{}'", options, memory));
  EXPECT_EQ(first + text_of(fmt::format("'' --max-bytes 25 {} --memory '{}'", options, memory)), whole);

  // A prompt read in two parts is the prompt.
  text_of(fmt::format("'A begin' --max-bytes 0 --save-memory '{}' --force", memory));
  EXPECT_EQ(text_of(fmt::format("ning --max-bytes 40 {} --memory '{}'", options, memory)), whole);
}

TEST_F(Generate, EndsBeforeStopStrings) {
  const std::string options = "Stop --seed 4 --raw --top-k 3 --max-bytes 40";
  const std::string whole = text_of(options);
  ASSERT_EQ(whole.size(), 40u);
  // Three of its bytes that a shell can quote.
  size_t place = 10;
  while (place < 37 && whole.substr(place, 3).find_first_of(std::string("'\0", 2)) != std::string::npos) ++place;
  ASSERT_LT(place, 37u);
  const std::string stop = whole.substr(place, 3);
  EXPECT_EQ(text_of(fmt::format("{} --stop nowhere --stop '{}'", options, stop)), whole.substr(0, whole.find(stop)));
}

TEST_F(Generate, TellsRatesAndTheSeedOnStandardError) {
  const ProgramResult result = run_program(fmt::format("generate '{}' Once --max-bytes 20 --seed 99", model()));
  EXPECT_EQ(result.exit_code, 0);
  for (const char* part : {"prompt  4 bytes in ", "text    ", "/s\n", "/s, ended by ", "seed    99\n"})
    EXPECT_NE(result.output.find(part), std::string::npos) << part << "\n" << result.output;
}

TEST_F(Generate, RefusesBadOptions) {
  expect_refused("x --temperature -1", "--temperature is -1");
  expect_refused("x --temperature nan", "--temperature is nan");
  expect_refused("x --temperature hot", "--temperature");
  expect_refused("x --top-k -3", "--top-k is -3");
  expect_refused("x --top-k 99999999999999999999", "is not a size");
  expect_refused("x --top-p 0", "--top-p is 0");
  expect_refused("x --top-p 1.5 --max-bytes -1", "--max-bytes is -1");
  expect_refused("x --max-bytes 99999999999999999999", "is not a size");
  expect_refused("x --max-bytes 1.5", "'1.5' is not a size");
  expect_refused("x --seed -5", "invalid seed '-5'");
  expect_refused("x --seed 99999999999999999999999", "--seed");
  expect_refused("x --stop ''", "stop string is empty");
  expect_refused("x --prompt-file a.txt", "given twice");
  expect_refused("--prompt-file /no/such/file", "/no/such/file");
  expect_refused("--prompt-file /", "cannot read the prompt from /");
  expect_refused("x --save-memory /", "is a folder");
  expect_refused("x --memory /no/such/memory", "/no/such/memory");
  expect_refused(fmt::format("x --max-bytes 1 --save-memory '{}/config.json/memory'", model()), "config.json");
  expect_user_error("generate tiny x", "pmnet new tiny DIR");
  expect_user_error("generate /no/such/model x", "/no/such/model");
  expect_user_error("generate no/such/folder", "no/such/folder");
  expect_user_error(fmt::format("generate '{}' x --temprature 1", model()), "did you mean '--temperature'?");
}

TEST_F(Generate, RefusesTheMemoryOfAnotherModel) {
  text_of(fmt::format("x --max-bytes 1 --save-memory '{}'", file("memory")));
  ASSERT_EQ(run_program(fmt::format("new tiny '{}' --seed 4", file("other"))).exit_code, 0);
  expect_user_error(fmt::format("generate '{}' x --memory '{}'", file("other"), file("memory")),
                    "belongs to another model");
}

TEST_F(Generate, TellsWhenItsOutputCannotBeWritten) {
  const ProgramResult result =
      run_shell(fmt::format("'{}' generate '{}' x --max-bytes 5 --seed 1 2>&1 >/dev/full", PMNET_PROGRAM, model()));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("cannot write to standard output"), std::string::npos) << result.output;
}

TEST(New, MakesModelsOfEveryArchitecture) {
  const TemporaryFolder folder;
  for (const char* architecture : {"pmnet", "transformer", "mamba"}) {
    const std::string model = (folder / architecture).string();
    const ProgramResult made = run_program(fmt::format("new tiny '{}' --arch {}", model, architecture));
    ASSERT_EQ(made.exit_code, 0) << made.output;
    EXPECT_NE(made.output.find("parameters"), std::string::npos) << made.output;
    EXPECT_EQ(run_program(fmt::format("generate '{}' x --max-bytes 3", model)).exit_code, 0);
  }
  expect_user_error(fmt::format("new tiny '{}'", (folder / "pmnet").string()), "already exists");
  expect_user_error("new tiny ''", "the name of the folder to write is empty");
  expect_user_error(fmt::format("new tinny '{}'", (folder / "x").string()), "did you mean 'tiny'?");
  expect_user_error(fmt::format("new tiny '{}' --arch llama", (folder / "x").string()), "--arch is 'llama'");
  expect_user_error(fmt::format("new tiny '{}' --seed 1.5", (folder / "x").string()), "--seed");
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
}

// Refused before the layers are built: they would take gigabytes.
TEST_F(Generate, RefusesAConfigFarLargerThanTheWeights) {
  nlohmann::json config = nlohmann::json::parse(std::ifstream(model() + "/config.json"));
  config["num_hidden_layers"] = config["memory_write_period"] = 65'536;
  config.erase("layer_types");
  std::ofstream(model() + "/config.json") << config;
  expect_refused("x", "the files do not belong together");
}

}  // namespace
}  // namespace pmnet
