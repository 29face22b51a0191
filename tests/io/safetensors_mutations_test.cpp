#include <gtest/gtest.h>

#include <sstream>

#include "io/safetensors.h"
#include "mutations.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/python.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

constexpr const char* kAccepted = "(no error)";

// The error for the file, having read every tensor of an accepted one.
std::string verdict(const std::filesystem::path& file, const std::string& bytes) {
  std::filesystem::remove(file);  // writing over a file makes some file systems wait for the disk
  write_file(file, bytes);
  return user_error_of([&] {
    const SafetensorsFile opened = SafetensorsFile::open(file);
    for (const TensorInfo& info : opened.tensors()) {
      std::string data(info.bytes(), '\0');
      opened.read(info, data.data());
    }
  });
}

TEST(SafetensorsMutations, NeverCrash) {
  const TemporaryFolder folder;
  int accepted = 0;
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    accepted += verdict(folder / "x.safetensors", mutated_safetensors(random)) == kAccepted;
  }
  EXPECT_GT(accepted, 500);
  EXPECT_LT(accepted, 5000);
}

TEST(SafetensorsMutations, SameVerdictAsThePythonPackage) {
  const TemporaryFolder folder;
  const std::string python = python_safetensors();
  if (python.empty()) GTEST_SKIP() << "no Python with the safetensors package";
  std::vector<std::string> ours;
  std::ofstream list(folder / "list");
  for (uint64_t seed = 0; seed < 3'000; ++seed) {
    std::mt19937_64 random(seed);
    const std::string bytes = mutated_safetensors(random);
    ours.push_back(verdict(folder / "x.safetensors", bytes));
    for (const char byte : bytes) list << fmt::format("{:02x}", static_cast<unsigned char>(byte));
    list << '\n';
  }
  list.close();
  const std::string judge =
      fmt::format("{} judge {} > {}", python, (folder / "list").string(), (folder / "answer").string());
  ASSERT_EQ(std::system(judge.c_str()), 0);
  std::istringstream theirs(read_file(folder / "answer", 1 << 20));
  for (uint64_t seed = 0; seed < ours.size(); ++seed) {
    int accepted = -1;
    theirs >> accepted;
    // Duplicate names are the one thing we refuse and the package, against its own specification, does not.
    if (ours[seed].find("occurs twice") != std::string::npos) continue;
    EXPECT_EQ(ours[seed] == kAccepted, accepted == 1) << "seed " << seed << ": " << ours[seed];
  }
}

}  // namespace
}  // namespace pmnet
