#include "kernels/read_memory.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/read_memory.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

template <int kStreams>
uint64_t SumStreams(const uint64_t* words, int64_t count) {
  const hn::ScalableTag<uint64_t> d;
  const int64_t lanes = hn::Lanes(d), line = 2 * lanes, stream_words = count / kStreams / line * line;
  hn::Vec<decltype(d)> sums[2 * kStreams];
  HWY_UNROLL(8)
  for (auto& sum : sums) sum = hn::Zero(d);
  for (int64_t i = 0; i < stream_words; i += line) {
    HWY_UNROLL(8)
    for (int k = 0; k < 2 * kStreams; ++k)
      sums[k] = hn::Add(sums[k], hn::LoadU(d, words + k / 2 * stream_words + i + k % 2 * lanes));
  }
  uint64_t total = 0;
  // Not SumOfLanes: GCC's reduction for AVX-512 adds signed numbers, whose overflow is undefined.
  for (const auto& sum : sums)
    for (int64_t i = 0; i < lanes; ++i) total += hn::ExtractLane(sum, i);
  for (int64_t i = kStreams * stream_words; i < count; ++i) total += words[i];
  return total;
}

uint64_t SumWords(const uint64_t* words, int64_t count, int64_t streams) {
  static constexpr decltype(&SumStreams<1>) kSums[kMaxReadStreams] = {SumStreams<1>, SumStreams<2>, SumStreams<3>,
                                                                      SumStreams<4>};
  return kSums[streams - 1](words, count);
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(SumWords);

uint64_t sum_words(const uint64_t* words, int64_t count, int64_t streams) {
  return HWY_DYNAMIC_DISPATCH(SumWords)(words, count, streams);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
