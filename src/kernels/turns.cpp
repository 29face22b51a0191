#include "kernels/turns.h"

#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/turns.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"
#include "kernels/turns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

void RadiansToTurns(int64_t count, const float* radians, int64_t* turns) {
  const Longs i;
  const size_t lanes = hn::Lanes(i);
  const auto convert = [](const float* p) HWY_ATTR {
    const Doubles d;
    return round_to_turns(hn::Mul(hn::PromoteTo(d, hn::LoadU(HalfFloats(), p)), hn::Set(d, kTurnsPerRadian)));
  };
  int64_t at = 0;
  for (; at + static_cast<int64_t>(lanes) <= count; at += lanes) hn::StoreU(convert(radians + at), i, turns + at);
  if (at < count) {
    HWY_ALIGN float in[HWY_MAX_BYTES / sizeof(float)] = {};
    HWY_ALIGN int64_t out[HWY_MAX_BYTES / sizeof(int64_t)];
    std::memcpy(in, radians + at, (count - at) * sizeof(float));
    hn::StoreU(convert(in), i, out);
    std::memcpy(turns + at, out, (count - at) * sizeof(int64_t));
  }
}

// Magnitudes are compared as integers, where NaN is greater than every number.
bool AllWithin(int64_t count, const float* x, float limit) {
  const hn::RebindToSigned<Floats> bits;
  auto top = hn::Zero(bits);
  for_each_vector(count,
                  [&](size_t i, auto io) HWY_ATTR { top = hn::Max(top, hn::BitCast(bits, hn::Abs(io.load(x + i)))); });
  return hn::GetLane(hn::MaxOfLanes(bits, top)) <= std::bit_cast<int32_t>(limit);
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(RadiansToTurns);
HWY_EXPORT(AllWithin);

void radians_to_turns(int64_t count, const float* radians, int64_t* turns) {
  HWY_DYNAMIC_DISPATCH(RadiansToTurns)(count, radians, turns);
}

bool all_within(int64_t count, const float* x, float limit) { return HWY_DYNAMIC_DISPATCH(AllWithin)(count, x, limit); }

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
