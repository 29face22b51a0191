#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>

#include "base/file_calls.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

// Puts the real calls back when a test ends.
class FaultyCalls {
 public:
  FaultyCalls() : before_(file_calls()) {}
  ~FaultyCalls() { file_calls() = before_; }

 private:
  FileCalls before_;
};

int interruptions_left = 0;

TEST(FileReader, RefusesWhatIsNotARegularFile) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(user_error_of([&] { FileReader reader(folder / "absent"); }),
            (folder / "absent").string() + ": cannot open: No such file or directory; check the path");
  EXPECT_NE(user_error_of([&] { FileReader reader(folder.path()); }).find("is a folder; name"), std::string::npos);
  EXPECT_NE(user_error_of([&] { FileReader reader(folder / "pipe"); }).find("name a regular file"), std::string::npos);
  EXPECT_NE(user_error_of([&] { FileReader reader("/dev/zero"); }).find("name a regular file"), std::string::npos);
}

TEST(FileReader, AFileCutOffMeanwhileIsAnError) {
  const TemporaryFolder folder;
  std::ofstream(folder / "a") << std::string(10'000, 'x');
  for (uint64_t size = 0; size < 10'000; size += 100) {
    std::ofstream(folder / "a") << std::string(10'000, 'x');
    const FileReader reader(folder / "a");
    std::filesystem::resize_file(folder / "a", size);
    std::string text(10'000, '\0');
    EXPECT_EQ(user_error_of([&] { reader.read_at(0, text.data(), text.size()); }),
              fmt::format("{}: ends at byte {}, {} bytes short, cut off while being read; fetch or save it again",
                          (folder / "a").string(), size, 10'000 - size));
  }
}

TEST(FileWriter, RetriesShortAndInterruptedWrites) {
  const TemporaryFolder folder;
  const FaultyCalls restore;
  static ssize_t (*real_write)(int, const void*, size_t) = file_calls().write;
  interruptions_left = 50;
  file_calls().write = [](int fd, const void* data, size_t size) -> ssize_t {
    if (interruptions_left-- > 0 && interruptions_left % 2 == 0) {
      errno = EINTR;
      return -1;
    }
    return real_write(fd, data, std::min<size_t>(size, 7));
  };
  static int (*real_fsync)(int) = file_calls().fsync;
  file_calls().fsync = [](int fd) {
    static bool once = true;
    if (std::exchange(once, false)) {
      errno = EINTR;
      return -1;
    }
    return real_fsync(fd);
  };
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i);
  FileWriter writer(folder / "a");
  writer.write(text);
  writer.finish();
  EXPECT_EQ(read_file(folder / "a", 1 << 20), text);
  EXPECT_EQ(writer.written(), text.size());
}

TEST(FileWriter, AFullDiskSaysWhatIsNeededAndWhatIsFree) {
  const TemporaryFolder folder;
  const std::string before = user_error_of([&] { FileWriter writer(folder / "a", uint64_t{1} << 62); });
  EXPECT_NE(before.find("No space left on device (need 4.6 EB, have "), std::string::npos) << before;
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));

  const FaultyCalls restore;
  file_calls().write = [](int, const void*, size_t) -> ssize_t {
    errno = ENOSPC;
    return -1;
  };
  FileWriter writer(folder / "b", 2'500'000);
  const std::string during = user_error_of([&] { writer.write("abc"); });
  EXPECT_NE(during.find((folder / "b").string() + ": cannot write: No space left on device (need 2.5 MB, have "),
            std::string::npos)
      << during;
}

TEST(FileWriter, NeverOverwrites) {
  const TemporaryFolder folder;
  std::ofstream(folder / "a") << "precious";
  EXPECT_NE(user_error_of([&] { FileWriter writer(folder / "a"); }).find("File exists"), std::string::npos);
  EXPECT_EQ(read_file(folder / "a", 100), "precious");
}

}  // namespace
}  // namespace pmnet
