#include "kernels/circle_features.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/circle_features.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// sin and cos of 32-bit turns: 2^31 is half a turn, which sincos_half_turns counts in.
HWY_INLINE SinCos sincos_turns(hn::Vec<hn::RebindToSigned<Floats>> turns) {
  const Floats d;
  return sincos_half_turns(hn::Mul(hn::ConvertTo(d, turns), hn::Set(d, 0x1p-31f)));
}

void CircleFeatures(int64_t tokens, int64_t num_slots, int64_t size, const int32_t* path, const int32_t* anchors,
                    const int64_t* group, float* features) {
  const Floats d;
  const hn::RebindToSigned<Floats> i;
  const int64_t lanes = hn::Lanes(d), slots = num_slots * size;
  HWY_ALIGN static const int32_t kZeros[HWY_MAX_BYTES / sizeof(int32_t)] = {};
  HWY_ALIGN int32_t tail[HWY_MAX_BYTES / sizeof(int32_t)];
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t n = 0; n < num_slots; ++n, features += 2 * size) {
      const int32_t* anchor = anchors ? anchors + std::max<int64_t>(group[t], 0) * slots + n * size : nullptr;
      const int32_t* here = path ? path + t * slots + n * size : nullptr;
      int64_t j = 0;
      for (; j + lanes <= size; j += lanes) {
        const SinCos c =
            sincos_turns(hn::Add(hn::LoadU(i, here ? here + j : kZeros), hn::LoadU(i, anchor ? anchor + j : kZeros)));
        hn::StoreU(c.sin, d, features + j);
        hn::StoreU(c.cos, d, features + size + j);
      }
      if (j < size) {
        for (int64_t l = 0; l < size - j; ++l)
          tail[l] = static_cast<int32_t>(static_cast<uint32_t>(anchor ? anchor[j + l] : 0) + (here ? here[j + l] : 0u));
        const auto active = hn::FirstN(d, size - j);
        const SinCos c = sincos_turns(hn::MaskedLoad(hn::FirstN(i, size - j), i, tail));
        hn::BlendedStore(c.sin, active, d, features + j);
        hn::BlendedStore(c.cos, active, d, features + size + j);
      }
    }
  }
}

void CircleFeaturesBackward(int64_t rows, int64_t size, const float* features, const float* grad_features,
                            float* grad_angle) {
  for (int64_t row = 0; row < rows; ++row, features += 2 * size, grad_features += 2 * size, grad_angle += size) {
    for_each_vector(size, [&](size_t j, auto io) HWY_ATTR {
      const auto from_cos = hn::Mul(io.load(grad_features + size + j), io.load(features + j));
      io.store(hn::MulSub(io.load(grad_features + j), io.load(features + size + j), from_cos), grad_angle + j);
    });
  }
}

void SumByGroup(int64_t tokens, int64_t width, int64_t begin, int64_t end, const float* rows, const int64_t* group,
                double* sums) {
  for (int64_t t = 0; t < tokens; ++t, rows += width) {
    double* sum = sums + std::max<int64_t>(group[t], 0) * width;
    for (int64_t j = begin; j < end; ++j) sum[j] += rows[j];
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(CircleFeatures);
HWY_EXPORT(CircleFeaturesBackward);
HWY_EXPORT(SumByGroup);

void circle_features(int64_t tokens, int64_t num_slots, int64_t size, const int32_t* path, const int32_t* anchors,
                     const int64_t* group, float* features) {
  HWY_DYNAMIC_DISPATCH(CircleFeatures)(tokens, num_slots, size, path, anchors, group, features);
}

void circle_features_backward(int64_t rows, int64_t size, const float* features, const float* grad_features,
                              float* grad_angle) {
  HWY_DYNAMIC_DISPATCH(CircleFeaturesBackward)(rows, size, features, grad_features, grad_angle);
}

void sum_by_group(int64_t tokens, int64_t width, int64_t begin, int64_t end, const float* rows, const int64_t* group,
                  double* sums) {
  HWY_DYNAMIC_DISPATCH(SumByGroup)(tokens, width, begin, end, rows, group, sums);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
