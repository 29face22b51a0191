#include "engine/parallel_steal.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace pmnet {
namespace {

TEST(ParallelSteal, RunsEveryIndexOnce) {
  for (const bool pool : {false, true}) {
    const Workers workers = pool ? Workers::from_pool() : Workers::from_regions();
    for (const int64_t count : {0, 1, 2, 3, 100}) {
      std::vector<std::atomic<int>> runs(count);
      parallel_steal(workers, count, [&](int64_t i) { ++runs[i]; });
      for (int64_t i = 0; i < count; ++i) EXPECT_EQ(runs[i], 1) << i << " of " << count;
    }
  }
}

TEST(ParallelRows, CoversAllRowsWithoutOverlap) {
  const Workers workers = Workers::from_pool();
  for (const int64_t rows : {1, 5, 1000})
    for (const int64_t cost : {1, 100, 100000}) {
      std::vector<std::atomic<int>> seen(rows);
      parallel_rows(workers, rows, cost, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) ++seen[row];
      });
      for (int64_t row = 0; row < rows; ++row) EXPECT_EQ(seen[row], 1) << row << " of " << rows;
    }
}

// The first thread does not leave its first index before the others have run all the rest, half of which was its own.
TEST(ParallelSteal, HelpsASlowThread) {
  const Workers workers = Workers::from_pool();
  if (workers.count() < 2) GTEST_SKIP() << "needs two threads";
  constexpr int kCount = 40;
  const auto first_thread = std::this_thread::get_id();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  std::atomic<int> by_others = 0;
  parallel_steal(workers, kCount, [&](int64_t) {
    if (std::this_thread::get_id() != first_thread) ++by_others;
    while (std::this_thread::get_id() == first_thread && by_others < kCount - 1 &&
           std::chrono::steady_clock::now() < give_up)
      std::this_thread::yield();
  });
  EXPECT_GE(by_others, kCount - 1);
}

}  // namespace
}  // namespace pmnet
