// A loop that only reads memory, to measure the bandwidth that bandwidth-bound kernels can reach at best.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

constexpr int64_t kMaxReadStreams = 4;

// The sum of `count` words modulo 2^64, read in 1 to kMaxReadStreams sequential streams at once.
uint64_t sum_words(const uint64_t* words, int64_t count, int64_t streams);

}  // namespace pmnet::kernels
