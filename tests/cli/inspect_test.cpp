#include <fstream>

#include "base/file.h"
#include "support/program.h"
#include "support/python.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

class Inspect : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_program(fmt::format("new tiny '{}' --seed 3", file("model"))).exit_code, 0);
    std::ofstream(file("text.txt")) << "Once upon a time there was a <fox>.\n";
  }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(Inspect, WritesAPageAndTensors) {
  const ProgramResult result =
      run_program(fmt::format("inspect '{}' '{}' --out '{}' --tensors '{}' --limit 30 --slots 1.0", file("model"),
                              file("text.txt"), file("page.html"), file("numbers.safetensors")));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("30 bytes of "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("page.html\n"), std::string::npos) << result.output;
  const std::string page = read_file(file("page.html"), 1 << 24);
  for (const char* part : {"What the memory does with text.txt", "read 30 bytes", "<h3>Level 1, group 0</h3>"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* asks : {"http://", "https://", "<script", "<link"}) EXPECT_EQ(page.find(asks), page.npos) << asks;
  if (const std::string python = python_with("safetensors.numpy"); !python.empty()) {
    const ProgramResult arrays =
        run_shell(fmt::format("{} -c \"import safetensors.numpy as s; a = s.load_file('{}'); "
                              "print(bytes(a['bytes']).decode(), a['bits'].shape, a['groups'].dtype)\"",
                              python, file("numbers.safetensors")));
    EXPECT_EQ(arrays.output, "Once upon a time there was a < (30,) int32\n");
  }
}

TEST_F(Inspect, RefusesBadInput) {
  const std::string start =
      fmt::format("inspect '{}' '{}' --out '{}' ", file("model"), file("text.txt"), file("p.html"));
  expect_user_error(start + "--limit 0", "--limit is 0");
  expect_user_error(start + "--limit 5G", "--limit is 5000000000");  // a size as in the other commands
  expect_user_error(start + "--limit 99999999999", "--limit is 99999999999");
  expect_user_error(start + "--slots 9.0", "levels of this model");
  expect_user_error(start + "--slots root", "expected LEVEL.GROUP");
  expect_user_error(start + fmt::format("--tensors '{}'", folder_.path().string()), "is a folder");
  expect_user_error(fmt::format("inspect '{}' '{}'", file("model"), file("absent.txt")), "absent.txt");
  expect_user_error(fmt::format("inspect '{}' '{}'", file("absent"), file("text.txt")), "absent");
  std::ofstream(file("empty.txt")) << "";
  expect_user_error(fmt::format("inspect '{}' '{}' --out '{}'", file("model"), file("empty.txt"), file("p.html")),
                    "holds no text");
  for (const char* architecture : {"transformer", "mamba"}) {
    ASSERT_EQ(run_program(fmt::format("new tiny '{}' --arch {}", file(architecture), architecture)).exit_code, 0);
    expect_user_error(fmt::format("inspect '{}' '{}' --out '{}'", file(architecture), file("text.txt"), file("p.html")),
                      "is no PMNet and has no memory");
  }
  EXPECT_FALSE(std::filesystem::exists(file("p.html")));
}

}  // namespace
}  // namespace pmnet
