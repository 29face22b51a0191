#include "kernels/gemv/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemv/quantize.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// Of x * unit: the largest magnitude, and the largest L2 norm of a block. NaN compares greater than every finite value,
// because magnitudes are compared as integers.
struct Extent {
  float magnitude, norm;
};

Extent Measure(int64_t count, const float* x, float unit) {
  const Floats d;
  const hn::RebindToSigned<Floats> bits;  // non-negative floats are ordered like their bits
  const auto scale = hn::Set(d, unit);
  const int64_t lanes = hn::Lanes(d);
  auto top = hn::Zero(bits);
  float norm_square = 0;
  for (int64_t begin = 0; begin < count; begin += kNormBlock) {
    const float* block = x + begin;
    const int64_t size = std::min(kNormBlock, count - begin), pairs = size / (2 * lanes) * (2 * lanes);
    auto even = hn::Zero(d), odd = hn::Zero(d);  // two chains of additions hide their latency
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
    norm_square = std::max(norm_square, sum_lanes(hn::Add(even, odd)));
  }
  return {std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(bits, top))), std::sqrt(norm_square)};
}

float QuantizeInt16(int64_t count, const float* x, float max_norm, ScaleKind kind, int16_t* out) {
  constexpr float kMaxInt16 = 32767;
  constexpr float kMinMagnitude = 1e-30f;  // smaller inputs are zero: their products vanish beside any other
  const Extent plain = Measure(count, x, 1);
  const float largest = plain.magnitude;
  if (largest < kMinMagnitude || !std::isfinite(largest)) {
    std::fill_n(out, count, int16_t{0});
    return largest < kMinMagnitude ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  // Rounding moves each column by at most 1/2 and so adds at most sqrt(kNormBlock)/2 to the norm of a block; 1 more
  // covers the float32 errors of the norm itself.
  const float rounding_margin = std::sqrt(static_cast<float>(kNormBlock)) / 2 + 1;
  const bool squares_fit = largest > 1e-15f && largest < 1e15f;  // no overflow or underflow
  const float norm = squares_fit ? plain.norm : largest * Measure(count, x, 1 / largest).norm;
  float scale = std::max(largest / kMaxInt16, norm / (max_norm - rounding_margin));
  if (kind == ScaleKind::kPowerOfTwo) scale = std::exp2(std::ceil(std::log2(scale)));
  const Floats d;
  const hn::Rebind<int16_t, Floats> narrow;
  const float inverse = 1 / scale;
  const int64_t lanes = hn::Lanes(d);
  int64_t j = 0;
  for (; j + lanes <= count; j += lanes)
    hn::StoreU(hn::DemoteTo(narrow, hn::NearestInt(hn::Mul(hn::LoadU(d, x + j), hn::Set(d, inverse)))), narrow,
               out + j);
  for (; j < count; ++j) out[j] = static_cast<int16_t>(std::lrint(x[j] * inverse));
  return scale;
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(QuantizeInt16);

float quantize_int16(int64_t count, const float* x, float max_norm, ScaleKind kind, int16_t* out) {
  return HWY_DYNAMIC_DISPATCH(QuantizeInt16)(count, x, max_norm, kind, out);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
