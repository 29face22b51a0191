#include "kernels/fixed_point.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fixed_point.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// What is no number is larger than all that are.
float LargestMagnitude(int64_t count, const float* x) {
  const hn::RebindToSigned<Floats> bits;  // magnitudes are in the order of their bits
  auto top = hn::Zero(bits);
  for_each_vector(count, [&](size_t j, auto io) HWY_ATTR {
    top = hn::Max(top, hn::BitCast(bits, hn::Abs(io.load(x + j))));  // zeros where masked
  });
  return std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(bits, top)));
}

// Of the blocks of x / largest: their squares cannot overflow.
float LongestBlock(int64_t count, const float* x, float largest) {
  const Floats d;
  const auto unit = hn::Set(d, 1 / largest);
  float longest = 0;
  for (int64_t begin = 0; begin < count; begin += kBlockColumns) {
    auto squares = hn::Zero(d);
    for_each_vector(std::min(kBlockColumns, count - begin), [&](size_t j, auto io) HWY_ATTR {
      const auto number = hn::Mul(io.load(x + begin + j), unit);
      squares = hn::MulAdd(number, number, squares);
    });
    longest = std::max(longest, sum_lanes(squares));
  }
  return std::sqrt(longest);
}

float RoundToShorts(int64_t count, const float* x, float longest_block, Factor kind, int16_t* out) {
  constexpr float kLargest = 32767, kNothing = 1e-30f;  // less than that leaves no trace in a product
  const float largest = LargestMagnitude(count, x);
  if (largest < kNothing || !std::isfinite(largest)) {
    std::fill_n(out, count, int16_t{0});
    return largest < kNothing ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  // Rounding by half a step in each column makes a block longer by at most that; the rest is for errors of float32.
  const float by_rounding = std::sqrt(static_cast<float>(kBlockColumns)) / 2 + 1;
  const float length = LongestBlock(count, x, largest);
  float factor = largest * std::max(1 / kLargest, length / (longest_block - by_rounding));
  if (kind == Factor::kPowerOfTwo) factor = std::exp2(std::ceil(std::log2(factor)));
  const Floats d;
  const hn::Rebind<int16_t, Floats> narrow;
  const float scale = 1 / factor;
  const int64_t lanes = hn::Lanes(d);
  int64_t j = 0;
  for (; j + lanes <= count; j += lanes)
    hn::StoreU(hn::DemoteTo(narrow, hn::NearestInt(hn::Mul(hn::LoadU(d, x + j), hn::Set(d, scale)))), narrow, out + j);
  for (; j < count; ++j) out[j] = static_cast<int16_t>(std::lrint(x[j] * scale));
  return factor;
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(RoundToShorts);

float round_to_shorts(int64_t count, const float* x, float longest_block, Factor kind, int16_t* out) {
  return HWY_DYNAMIC_DISPATCH(RoundToShorts)(count, x, longest_block, kind, out);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
