#include "report/tensorboard.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/file_calls.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

template <typename T>
T read_as(const std::string& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// The events of a file; checks every length and checksum on the way.
std::vector<std::string> frames_of(const std::string& bytes) {
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size();) {
    const auto size = read_as<uint64_t>(bytes, at);
    EXPECT_EQ(read_as<uint32_t>(bytes, at + 8), masked_crc32c(bytes.substr(at, 8)));
    EXPECT_LE(at + 16 + size, bytes.size());
    events.push_back(bytes.substr(at + 12, size));
    EXPECT_EQ(read_as<uint32_t>(bytes, at + 12 + size), masked_crc32c(events.back()));
    at += 16 + size;
  }
  return events;
}

TEST(Tensorboard, ChecksumsMatchPublishedValues) {
  // Vectors of RFC 3720, appendix B.4.
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(Tensorboard, FramesHoldVersionScalarsAndText) {
  const TemporaryFolder folder;
  EventWriter writer(folder.path(), 0);
  writer.add_scalars(7, {{"train/loss", 1.5}, {"lr", 0.25}});
  writer.add_text(300, "sample", "Once upon a time\xFF");
  const std::vector<std::string> events = frames_of(whole_file(writer.path()));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_NE(events[0].find("brain.Event:2"), std::string::npos);
  // step 7 behind the time; then a summary of values {tag, simple_value}
  EXPECT_EQ(events[1].substr(9, 2), std::string("\x10\x07"));
  EXPECT_NE(events[1].find(std::string("\x0A\x0Atrain/loss\x15\x00\x00\xC0\x3F", 17)), std::string::npos);
  EXPECT_NE(events[1].find(std::string("\x0A\x02lr\x15\x00\x00\x80\x3E", 9)), std::string::npos);
  EXPECT_EQ(events[2].substr(9, 3), std::string("\x10\xAC\x02"));
  EXPECT_NE(events[2].find("Once upon a time\xFF"), std::string::npos);
}

TEST(Tensorboard, FullDiskLeavesWholeFramesAndOneWarning) {
  const TemporaryFolder folder;
  int warnings = 0;
  EventWriter writer(folder.path(), 0, [&](const std::string&) { ++warnings; });
  writer.add_scalars(1, {{"loss", 1}});
  const auto before = file_calls().write;
  file_calls().write = [](int fd, const void* data, size_t) { return ::write(fd, data, 5); };
  writer.add_scalars(2, {{"loss", 2}});
  file_calls().write = before;
  writer.add_scalars(3, {{"loss", 3}});
  EXPECT_EQ(frames_of(whole_file(writer.path())).size(), 3u);
  EXPECT_EQ(warnings, 1);
  EXPECT_NE(user_error_of([&] { EventWriter(folder / "absent"); }).find("absent"), std::string::npos);
}

TEST(Tensorboard, TheTensorboardPackageReadsIt) {
  const std::string python = std::string(PMNET_SOURCE_DIR) + "/.venv/bin/python";
  if (std::system(
          (python + " -c 'import tensorboard.backend.event_processing.event_accumulator' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no tensorboard package in .venv";
  const TemporaryFolder folder;
  {
    EventWriter first(folder.path());
    for (int64_t step = 1; step <= 10; ++step) first.add_scalars(step, {{"train/loss", static_cast<double>(step)}});
    EventWriter resumed(folder.path(), 6);
    for (int64_t step = 6; step <= 8; ++step) resumed.add_scalars(step, {{"train/loss", 100.0}});
    resumed.add_text(8, "sample", "a tale");
  }
  std::ofstream(folder / "check.py") << R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
scalars = [(e.step, e.value) for e in events.Scalars('train/loss')]
assert scalars == [(i, i) for i in range(1, 6)] + [(i, 100) for i in range(6, 9)], scalars
text = events.Tensors('sample')
assert text[0].step == 8 and text[0].tensor_proto.string_val[0] == b'a tale', text
)";
  EXPECT_EQ(std::system((python + " " + (folder / "check.py").string() + " " + folder.path().string()).c_str()), 0);
}

}  // namespace
}  // namespace pmnet
