// Numbers as 16-bit integers and a factor. Their products are summed in 32-bit integers, twice as many at once as in
// floats. No sum over a block of columns leaves 32 bits: by Cauchy and Schwarz it is at most the length of the block of
// weights times that of the block of the vector, and their product stays below 2^31.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

constexpr int64_t kBlockColumns = 256;

// Lengths that no rounded block reaches.
constexpr float kLongestShorts = 1 << 15;        // of 16-bit weights
constexpr float kLongestBesideShorts = 1 << 16;  // of vectors that meet them
constexpr float kLongestBesideBytes = 1 << 20;   // of vectors that meet int8 weights: those have at most 128 sqrt(256)

enum class Factor { kAny, kPowerOfTwo };

// out = x / factor, rounded. Returns the factor, the smallest that fits, or no number if one of x is not finite.
// Divided by a power of two, a bf16 number is an integer unless it is then less than 128.
float round_to_shorts(int64_t count, const float* x, float longest_block, Factor kind, int16_t* out);

}  // namespace pmnet::kernels
