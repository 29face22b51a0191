// Attention dropout as a pure function: which (head, query, key) survive depends only on the row's key and absolute
// positions. ops/reference_attention.cpp computes the same bits in ATen.
#pragma once
#include <cstdint>

#include "base/hash.h"

namespace pmnet::kernels {

// One query's key; the per-key part mixes its two halves with the key position.
inline uint64_t query_key(uint64_t row_key, uint64_t head, uint64_t query_position) {
  return mix64(row_key ^ (head * 0x9E3779B97F4A7C15 + query_position * 0xD1B54A32D192ED03));
}

inline uint32_t drop_threshold(double probability) { return static_cast<uint32_t>(probability * 0x1p32); }

inline bool survives(uint64_t query_key, uint32_t key_position, uint32_t threshold) {
  uint32_t x = key_position * 0x9E3779B1u + static_cast<uint32_t>(query_key);
  x = (x ^ (x >> 16)) * 0x21F0AAADu;
  x = (x ^ (x >> 15) ^ static_cast<uint32_t>(query_key >> 32)) * 0x735A2D97u;
  return (x ^ (x >> 15)) >= threshold;
}

}  // namespace pmnet::kernels
