// Commands without a model use the one that ships with the program.
#include <gtest/gtest.h>

#include <fstream>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

class DefaultModel : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_program(fmt::format("new tiny '{}' --seed 3", shipped())).exit_code, 0);
    std::ofstream(text()) << "A short text.\nWith a second line.\n";
  }
  std::string shipped() const { return (folder_ / "models" / "books-10m").string(); }
  std::string text() const { return (folder_ / "text.txt").string(); }
  ProgramResult run(const std::string& arguments, const std::string& home) const {
    return run_shell(fmt::format("cd '{}' && PMNET_HOME='{}' '{}' {} --threads 1 2>&1 < /dev/null",
                                 folder_.path().string(), home, PMNET_PROGRAM, arguments));
  }
  ProgramResult run(const std::string& arguments) const { return run(arguments, folder_.path().string()); }
  // Standard output alone.
  std::string output(const std::string& arguments) const {
    return run_shell(fmt::format("PMNET_HOME='{}' '{}' {} --threads 1 2>/dev/null < /dev/null", folder_.path().string(),
                                 PMNET_PROGRAM, arguments))
        .output;
  }

  TemporaryFolder folder_;
};

TEST_F(DefaultModel, GeneratesAsIfItHadBeenNamed) {
  const std::string options = "'Once upon' --seed 1 --raw --max-bytes 20";
  const std::string named = output(fmt::format("generate '{}' {}", shipped(), options));
  EXPECT_FALSE(named.empty());
  EXPECT_EQ(output("generate " + options), named);
  EXPECT_NE(run("generate " + options).output.find("ships with pmnet"), std::string::npos);
}

TEST_F(DefaultModel, TakesAMissingFolderForAMistypedModel) {
  const ProgramResult result = run("generate runs/frist");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("runs/frist"), std::string::npos);
}

TEST_F(DefaultModel, EvaluatesScoresAndInspectsATextAlone) {
  EXPECT_EQ(output(fmt::format("score '{}'", text())), output(fmt::format("score '{}' '{}'", shipped(), text())));
  const ProgramResult evaluated = run(fmt::format("eval '{}'", text()));
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.output;
  EXPECT_NE(evaluated.output.find("books-10m"), std::string::npos);
  EXPECT_EQ(run(fmt::format("inspect '{}' --out page.html", text())).exit_code, 0);
}

TEST_F(DefaultModel, StillNeedsAText) {
  const ProgramResult result = run("eval");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("no text is given"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace pmnet
