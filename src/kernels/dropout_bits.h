// Attention dropout as a pure function: which (head, query, key) survive depends only on the row's key and absolute
// positions. kernels/attention_block-inl.h computes the same bits on vectors, ops/window_attention.cpp in ATen; the
// constants below are the only place where they are written.
#pragma once
#include <cstdint>

#include "base/hash.h"

namespace pmnet::kernels {

// Odd multipliers that spread heads, queries and keys over all bits.
constexpr uint64_t kHeadMultiplier = kGoldenRatio64, kQueryMultiplier = 0xD1B54A32D192ED03;
constexpr uint32_t kKeyMultiplier = 0x9E3779B1;

// The two rounds of the 32-bit mixer that combines a query's hash with a key position.
constexpr uint32_t kRoundMultiplier1 = 0x21F0AAAD, kRoundMultiplier2 = 0x735A2D97;

// The hash of a query. Its two halves enter the mixing with each key position.
inline uint64_t query_key(uint64_t row_key, uint64_t head, uint64_t query_position) {
  return mix64(row_key ^ (head * kHeadMultiplier + query_position * kQueryMultiplier));
}

// A probability is dropped if its 32 bits are below this.
inline uint32_t drop_threshold(double probability) { return static_cast<uint32_t>(probability * 0x1p32); }

// The scalar definition, which tests compare the other two with.
inline bool survives(uint64_t query_key, uint32_t key_position, uint32_t threshold) {
  uint32_t x = key_position * kKeyMultiplier + static_cast<uint32_t>(query_key);
  x = (x ^ (x >> 16)) * kRoundMultiplier1;
  x = (x ^ (x >> 15) ^ static_cast<uint32_t>(query_key >> 32)) * kRoundMultiplier2;
  return (x ^ (x >> 15)) >= threshold;
}

}  // namespace pmnet::kernels
