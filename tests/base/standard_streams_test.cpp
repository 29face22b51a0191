#include "base/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "support/files.h"
#include "support/in_child.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

TEST(StandardStreams, AClosedOneDoesNotSwallowAFile) {
  const TemporaryFolder folder;
  const std::string file = (folder / "data").string();
  EXPECT_EQ(in_child([&] {
              for (const int fd : {0, 1, 2}) ::close(fd);
              open_standard_streams();
              const int data = ::open(file.c_str(), O_WRONLY | O_CREAT, 0600);
              print_error("progress");
              if (data < 3 || ::write(data, "data", 4) != 4) ::_exit(1);
            }),
            0);
  EXPECT_EQ(whole_file(file), "data");
}

TEST(StandardStreams, PrintErrorSurvivesAClosedOrFullStream) {
  EXPECT_EQ(in_child([] {
              ::close(STDERR_FILENO);
              print_error("lost");
              print_error("{} too", "lost");
            }),
            0);
  EXPECT_EQ(in_child([] {
              if (::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO) < 0) ::_exit(1);
              print_error("lost");
            }),
            0);
}

TEST(EscapeControl, LetsTextPassAndWritesCommandsOut) {
  EXPECT_EQ(escape_control("weights of layer 3, \xC3\xA4\n\ttab"), "weights of layer 3, \xC3\xA4\n\ttab");
  EXPECT_EQ(escape_control("\x1b]0;owned\x07\x7f\r"), "\\x1b]0;owned\\x07\\x7f\\x0d");
  EXPECT_EQ(escape_control("\xC2\x9B"
                           "31m"),
            "\\x9b31m");  // CSI as one character
  EXPECT_EQ(escape_control("\x9B"
                           "31m"),
            "\xEF\xBF\xBD"
            "31m");  // and as a stray byte
  EXPECT_STREQ(UserError("tensor \x1b[2J").what(), "tensor \\x1b[2J");
}

}  // namespace
}  // namespace pmnet
