#pragma once
#include <cstdint>
#include <random>
#include <vector>

namespace pmnet::kernels {

inline std::vector<float> normal(int64_t count, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> x(count);
  for (float& value : x) value = distribution(generator);
  return x;
}

}  // namespace pmnet::kernels
