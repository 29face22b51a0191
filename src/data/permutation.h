#pragma once
#include <bit>
#include <cstdint>

#include "base/hash.h"

namespace pmnet {

// A shuffle of 0..size-1 chosen by `key` that needs no table: a Feistel network over the next even number of bits,
// walked along its cycle until it lands inside the range again (fewer than 4 rounds on average).
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t key)
      : size_(size), key_(key), half_bits_(size > 1 ? (std::bit_width(size - 1) + 1) / 2 : 0) {}

  uint64_t size() const { return size_; }

  uint64_t operator()(uint64_t index) const {
    if (size_ <= 1) return index;
    do index = scramble(index);
    while (index >= size_);
    return index;
  }

 private:
  static constexpr int kRounds = 6;

  uint64_t scramble(uint64_t x) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = x >> half_bits_, right = x & mask;
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (splitmix64(key_ + round, right) & mask);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  uint64_t size_, key_;
  int half_bits_;
};

}  // namespace pmnet
