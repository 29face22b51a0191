#include "ops/team.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace pmnet::ops {
namespace {

std::vector<int> times_each(int64_t count) {
  std::vector<std::atomic<int>> times(count);
  run_on_threads(count, [&](int64_t i) { ++times[i]; });
  return {times.begin(), times.end()};
}

TEST(Team, DoesEveryShareOnce) {
  with_team([] {
    for (int round = 0; round < 1000; ++round)
      for (const int64_t count : {1, 2, 3, 64}) ASSERT_EQ(times_each(count), std::vector<int>(count, 1));
  });
  EXPECT_EQ(times_each(3), std::vector<int>(3, 1));  // dismissed
}

// Also after the others have waited long enough to fall asleep. How soon they arrive is up to the system.
TEST(Team, SharesRunOnSeveralThreads) {
  if (at::get_num_threads() < 2) GTEST_SKIP() << "needs two threads";
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  std::vector<std::thread::id> threads(2);
  with_team([&] {
    while (threads[0] == threads[1] && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      run_on_threads(2, [&](int64_t i) { threads[i] = std::this_thread::get_id(); });
    }
  });
  EXPECT_NE(threads[0], threads[1]);
}

TEST(Team, WorkMayShareOutWorkItself) {
  std::atomic<int> times = 0;
  with_team([&] {
    run_on_threads(2, [&](int64_t) { run_on_threads(5, [&](int64_t) { ++times; }); });
    with_team([&] { run_on_threads(3, [&](int64_t) { ++times; }); });
  });
  EXPECT_EQ(times, 13);
}

TEST(Team, FailuresReachTheLeaderAndLeaveTheTeamWhole) {
  with_team([] {
    for (int64_t failing = 0; failing < 3; ++failing) {
      EXPECT_THROW(run_on_threads(3,
                                  [&](int64_t i) {
                                    if (i == failing) throw std::runtime_error("share");
                                  }),
                   std::runtime_error);
      ASSERT_EQ(times_each(4), std::vector<int>(4, 1));
    }
  });
  EXPECT_THROW(with_team([] { throw std::runtime_error("body"); }), std::runtime_error);
  EXPECT_EQ(times_each(4), std::vector<int>(4, 1));
}

}  // namespace
}  // namespace pmnet::ops
