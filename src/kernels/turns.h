// Angles as turns: 2^64 is a full turn, so 64-bit integers wrap at 2 pi by themselves and sums of increments are exact.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

// The conversion holds up to this magnitude (it would up to 3.2e6); callers check first.
constexpr float kMaxRadians = 0x1p20f;

// turns = round(radians * 2^64 / 2 pi) mod 2^64, for |radians| <= kMaxRadians.
void radians_to_turns(int64_t count, const float* radians, int64_t* turns);

// Whether every |x| <= limit; false if any x is NaN.
bool all_within(int64_t count, const float* x, float limit);

}  // namespace pmnet::kernels
