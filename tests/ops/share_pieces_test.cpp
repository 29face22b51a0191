#include "ops/share_pieces.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace pmnet::ops {
namespace {

TEST(SharePieces, RunsEveryPieceOnce) {
  for (const int64_t count : {0, 1, 2, 3, 100}) {
    std::vector<std::atomic<int>> runs(count);
    share_pieces(count, [&](int64_t piece) { ++runs[piece]; });
    for (int64_t i = 0; i < count; ++i) EXPECT_EQ(runs[i], 1) << "piece " << i << " of " << count;
  }
}

// The first thread does not leave its first piece before the others have run all the rest, half of which was its own.
TEST(SharePieces, HelpsASlowThread) {
  if (at::get_num_threads() < 2) GTEST_SKIP() << "needs two threads";
  constexpr int kCount = 40;
  const auto first_thread = std::this_thread::get_id();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  std::atomic<int> by_others = 0;
  share_pieces(kCount, [&](int64_t) {
    if (std::this_thread::get_id() != first_thread) ++by_others;
    while (std::this_thread::get_id() == first_thread && by_others < kCount - 1 &&
           std::chrono::steady_clock::now() < give_up)
      std::this_thread::yield();
  });
  EXPECT_GE(by_others, kCount - 1);
}

}  // namespace
}  // namespace pmnet::ops
