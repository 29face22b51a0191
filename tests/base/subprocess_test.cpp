#include "base/subprocess.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace pmnet {
namespace {

TEST(Subprocess, PassesArgumentsAsTheyAreAndCapturesBothStreams) {
  const std::string nasty = "a 'b' \"c\" $HOME `id` \\ \n*";
  const ChildResult child = run_child({"sh", "-c", "printf '%s' \"$1\"; printf err >&2; exit 3", "sh", nasty},
                                      {.err = ChildStream::kCapture});
  EXPECT_EQ(child.output, nasty);
  EXPECT_EQ(child.errors, "err");
  EXPECT_EQ(child.exit_code, 3);
  EXPECT_FALSE(child.succeeded());
}

TEST(Subprocess, FeedsAndReturnsMoreThanAPipeHolds) {
  const std::string input(3'000'000, 'x');
  EXPECT_EQ(run_child({"cat"}, {.input = input}).output, input);
  EXPECT_EQ(run_child({"cat"}).output, "");  // no input: the end of a file, not our terminal
}

TEST(Subprocess, JoinsAndDiscardsStreams) {
  const std::vector<std::string> both = {"sh", "-c", "echo one; echo two >&2; echo three"};
  EXPECT_EQ(run_child(both, {.err = ChildStream::kJoin}).output, "one\ntwo\nthree\n");
  EXPECT_EQ(run_child(both, {.out = ChildStream::kJoin, .err = ChildStream::kCapture}).errors, "one\ntwo\nthree\n");
  const ChildResult quiet = run_child(both, {.out = ChildStream::kDiscard, .err = ChildStream::kDiscard});
  EXPECT_TRUE(quiet.succeeded());
  EXPECT_EQ(quiet.output + quiet.errors, "");
}

TEST(Subprocess, SaysHowAProgramEndedOrWhyItNeverStarted) {
  EXPECT_EQ(run_child({"sh", "-c", "kill -TERM $$"}).exit_code, 128 + 15);
  const ChildResult missing = run_child({"no-such-program-here"});
  EXPECT_EQ(missing.start_error, ENOENT);
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_FALSE(missing.succeeded());
}

}  // namespace
}  // namespace pmnet
