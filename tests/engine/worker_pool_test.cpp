#include "engine/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace pmnet {
namespace {

std::vector<int> times_each(WorkerPool& pool, int64_t count) {
  std::vector<std::atomic<int>> times(count);
  pool.run(count, [&](int64_t i) { ++times[i]; });
  return {times.begin(), times.end()};
}

TEST(WorkerPool, RunsEveryTaskOnce) {
  WorkerPool pool(4);
  ASSERT_EQ(pool.num_threads(), 4);
  for (int round = 0; round < 2000; ++round)
    for (const int64_t count : {1, 2, 3, 4}) ASSERT_EQ(times_each(pool, count), std::vector<int>(count, 1));
}

TEST(WorkerPool, OfOneThreadRunsOnTheCaller) {
  WorkerPool pool(1);
  EXPECT_EQ(times_each(pool, 1), std::vector<int>(1, 1));
}

// Also after the workers have waited long enough to fall asleep. How soon they wake up is decided by the system.
TEST(WorkerPool, TasksRunOnSeveralThreads) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  std::vector<std::thread::id> threads(2);
  WorkerPool pool(2);
  while (threads[0] == threads[1] && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pool.run(2, [&](int64_t i) {
      threads[i] = std::this_thread::get_id();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    });
  }
  EXPECT_NE(threads[0], threads[1]);
}

TEST(WorkerPool, FailuresReachTheCallerAndLeaveThePoolWhole) {
  WorkerPool pool(3);
  for (int64_t failing = 0; failing < 3; ++failing) {
    EXPECT_THROW(pool.run(3,
                          [&](int64_t i) {
                            if (i == failing) throw std::runtime_error("task");
                          }),
                 std::runtime_error);
    ASSERT_EQ(times_each(pool, 3), std::vector<int>(3, 1));
  }
}

TEST(Workers, ASecondThreadWorksAlone) {
  const Workers first = Workers::from_pool();
  int64_t second = 0;
  std::thread([&] { second = Workers::from_pool().count(); }).join();
  EXPECT_EQ(second, 1);
}

}  // namespace
}  // namespace pmnet
