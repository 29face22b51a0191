// Work whose pieces are read from memory one after the other.
#pragma once
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "ops/team.h"

namespace pmnet::ops {

// body(piece) for pieces [0, count). Every thread takes the pieces of its own stretch in their order, then helps the
// others to finish theirs: cores that wait for memory, or share it with other programs, are never equally fast.
template <typename Body>
void share_pieces(int64_t count, const Body& body) {
  struct alignas(64) Stretch {  // a cache line of its own
    std::atomic<int64_t> next;
    int64_t end;
  };
  const int64_t threads = std::min<int64_t>(count, at::get_num_threads());
  if (threads <= 1) {
    for (int64_t piece = 0; piece < count; ++piece) body(piece);
    return;
  }
  thread_local std::vector<Stretch> kept;  // for its memory
  if (static_cast<int64_t>(kept.size()) < threads) kept = std::vector<Stretch>(threads);
  std::vector<Stretch>& stretches = kept;
  for (int64_t t = 0; t < threads; ++t) {
    stretches[t].next = count * t / threads;
    stretches[t].end = count * (t + 1) / threads;
  }
  run_on_threads(threads, [&](int64_t t) {
    for (int64_t turn = 0; turn < threads; ++turn) {
      Stretch& stretch = stretches[(t + turn) % threads];
      for (int64_t piece; (piece = stretch.next.fetch_add(1, std::memory_order_relaxed)) < stretch.end;) body(piece);
    }
  });
}

}  // namespace pmnet::ops
