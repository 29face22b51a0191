// A parallel loop with work stealing.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "engine/worker_pool.h"

namespace pmnet {

// body(i) for i in [0, count). Every thread takes the indices of its own range in order, which hardware prefetching
// likes, and then steals from the ranges of the others: cores that wait for memory, or share it with other programs,
// are never equally fast.
template <typename Body>
void parallel_steal(const Workers& workers, int64_t count, const Body& body) {
  struct alignas(64) WorkRange {  // one cache line each, so that threads do not invalidate each other's
    int64_t next, end;
  };
  const int64_t threads = std::min(count, workers.count());
  if (threads <= 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::array<WorkRange, WorkerPool::kMaxThreads> ranges;  // of which the first `threads` are used
  for (int64_t t = 0; t < threads; ++t) ranges[t] = {count * t / threads, count * (t + 1) / threads};
  workers.run(threads, [&](int64_t t) {
    for (int64_t other = 0; other < threads; ++other) {
      WorkRange& range = ranges[(t + other) % threads];
      const std::atomic_ref next(range.next);
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < range.end;) body(i);
    }
  });
}

// body(begin, end) for pieces of [0, rows); `cost` of one row in floats decides how many pieces are worth a thread.
template <typename Body>
void parallel_rows(const Workers& workers, int64_t rows, int64_t cost, const Body& body) {
  constexpr int64_t kFloatsWorthAPiece = 4096, kMaxPieces = 64;
  const int64_t pieces = std::clamp<int64_t>(rows * cost / kFloatsWorthAPiece, 1, std::min(rows, kMaxPieces));
  parallel_steal(workers, pieces, [&](int64_t i) { body(rows * i / pieces, rows * (i + 1) / pieces); });
}

}  // namespace pmnet
