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

// Of x * unit: the largest magnitude (what is no number is larger than all that are), and the length of the longest
// block.
struct Extent {
  float largest, longest;
};

Extent Measure(int64_t count, const float* x, float unit) {
  const Floats d;
  const hn::RebindToSigned<Floats> bits;  // magnitudes are in the order of their bits
  const auto scale = hn::Set(d, unit);
  const int64_t lanes = hn::Lanes(d);
  auto top = hn::Zero(bits);
  float longest = 0;
  for (int64_t begin = 0; begin < count; begin += kBlockColumns) {
    const float* block = x + begin;
    const int64_t size = std::min(kBlockColumns, count - begin), pairs = size / (2 * lanes) * (2 * lanes);
    auto even = hn::Zero(d), odd = hn::Zero(d);  // two sums: one would wait for itself
    const auto add = [&](FloatVec number, FloatVec& squares) HWY_ATTR {
      number = hn::Mul(number, scale);
      squares = hn::MulAdd(number, number, squares);
      top = hn::Max(top, hn::BitCast(bits, hn::Abs(number)));
    };
    for (int64_t j = 0; j < pairs; j += 2 * lanes) {
      add(hn::LoadU(d, block + j), even);
      add(hn::LoadU(d, block + j + lanes), odd);
    }
    for_each_vector(size - pairs, [&](size_t j, auto io) HWY_ATTR { add(io.load(block + pairs + j), even); });
    longest = std::max(longest, sum_lanes(hn::Add(even, odd)));
  }
  return {std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(bits, top))), std::sqrt(longest)};
}

float RoundToShorts(int64_t count, const float* x, float longest_block, Factor kind, int16_t* out) {
  constexpr float kLargest = 32767, kNothing = 1e-30f;  // less than that leaves no trace in a product
  const Extent plain = Measure(count, x, 1);
  const float largest = plain.largest;
  if (largest < kNothing || !std::isfinite(largest)) {
    std::fill_n(out, count, int16_t{0});
    return largest < kNothing ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  // Rounding by half a step in each column makes a block longer by at most that; the rest is for errors of float32.
  const float by_rounding = std::sqrt(static_cast<float>(kBlockColumns)) / 2 + 1;
  const bool squares_fit = largest > 1e-15f && largest < 1e15f;
  const float length = squares_fit ? plain.longest : largest * Measure(count, x, 1 / largest).longest;
  float factor = std::max(largest / kLargest, length / (longest_block - by_rounding));
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
