#include "base/stop_signal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace pmnet {
namespace {

TEST(StopSignals, TheFirstSignalOnlyAsks) {
  testing::internal::CaptureStderr();
  {
    const StopSignals signals("stopping soon");
    EXPECT_FALSE(StopSignals::requested());
    std::raise(SIGTERM);
    EXPECT_TRUE(StopSignals::requested());
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "\nstopping soon\n");
}

// GNU timeout signals its child and then the child's group.
TEST(StopSignals, ASecondSignalWithinASecondIsADuplicate) {
  const StopSignals signals;
  std::raise(SIGINT);
  std::raise(SIGINT);
  ::usleep(50'000);
  std::raise(SIGTERM);
  EXPECT_TRUE(StopSignals::requested());
}

TEST(StopSignals, ALaterSecondSignalExitsAtOnce) {
  const auto press_twice = [] {
    const StopSignals signals;
    std::raise(SIGINT);
    ::usleep(1'050'000);
    std::raise(SIGTERM);
    ::_exit(0);
  };
  EXPECT_EXIT(press_twice(), testing::ExitedWithCode(128 + SIGTERM), "press again to exit at once");
}

}  // namespace
}  // namespace pmnet
