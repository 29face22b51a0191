// Reading memory and nothing else: how fast a machine can do that is the limit of what only has to read.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

constexpr int64_t kMostStreams = 4;

// The sum of `count` words modulo 2^64, read in 1 to kMostStreams stretches at once.
uint64_t sum_words(const uint64_t* words, int64_t count, int64_t streams);

}  // namespace pmnet::kernels
