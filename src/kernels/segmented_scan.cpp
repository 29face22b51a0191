#include "kernels/segmented_scan.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/segmented_scan.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"
#include "kernels/turns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// One vector of channels of one slot: state += turns(weight * update) (Eq. 5 and 6), path_out = path_in + state >> 32.
// The product is rounded to float first: that float is the increment, in the reference too.
HWY_INLINE void AddTurns(float weight, const float* update, const int32_t* path_in, int64_t* state, int32_t* path_out) {
  const Doubles d;
  const Longs i;
  const HalfFloats f;
  const HalfInts h;
  const auto delta = hn::Mul(hn::Set(f, weight), hn::LoadU(f, update));  // Eq. 5
  const auto turns = round_to_turns(hn::Mul(hn::PromoteTo(d, delta), hn::Set(d, kTurnsPerRadian)));
  const auto sum = hn::Add(hn::LoadU(i, state), turns);
  hn::StoreU(sum, i, state);
  const hn::RebindToUnsigned<Longs> u;
  auto top = hn::BitCast(h, hn::TruncateTo(hn::RebindToUnsigned<HalfInts>(), hn::ShiftRight<32>(hn::BitCast(u, sum))));
  if (path_in) top = hn::Add(top, hn::LoadU(h, path_in));
  hn::StoreU(top, h, path_out);
}

void SegmentedScan(const SegmentedScanShape& s, const float* weights, const float* update, const int64_t* group,
                   const int32_t* path_in, int64_t* state, int32_t* path_out) {
  const int64_t lanes = hn::Lanes(Doubles()), slots = s.num_slots * s.size;
  for (int64_t t = 0; t < s.num_tokens; ++t, weights += s.num_slots, update += s.size) {
    for (int64_t n = 0; n < s.num_slots; ++n) {
      const int64_t here = t * slots + n * s.size;
      if (group[t] < 0) {
        for (int64_t j = s.begin; j < s.end; ++j) path_out[here + j] = path_in ? path_in[here + j] : 0;
        continue;
      }
      int64_t* memory = state + group[t] * slots + n * s.size;
      int64_t j = s.begin;
      for (; j + lanes <= s.end; j += lanes)
        AddTurns(weights[n], update + j, path_in ? path_in + here + j : nullptr, memory + j, path_out + here + j);
      if (j < s.end) {
        const int64_t rest = s.end - j;
        HWY_ALIGN float u[HWY_MAX_BYTES / sizeof(float)] = {};
        HWY_ALIGN int64_t m[HWY_MAX_BYTES / sizeof(int64_t)] = {};
        HWY_ALIGN int32_t in[HWY_MAX_BYTES / sizeof(int32_t)] = {};
        HWY_ALIGN int32_t out[HWY_MAX_BYTES / sizeof(int32_t)];
        std::memcpy(u, update + j, rest * sizeof(float));
        std::memcpy(m, memory + j, rest * sizeof(int64_t));
        if (path_in) std::memcpy(in, path_in + here + j, rest * sizeof(int32_t));
        AddTurns(weights[n], u, in, m, out);
        std::memcpy(memory + j, m, rest * sizeof(int64_t));
        std::memcpy(path_out + here + j, out, rest * sizeof(int32_t));
      }
    }
  }
}

// Goes back in time. The gradient of an increment is the sum of the gradients of all later states of its segment, which
// `suffix` accumulates in double. Eq. 9 scales it; delta = weight * update then gives both factors' gradients.
void SegmentedScanBackward(const SegmentedScanShape& s, const float* weights, const float* update, const int64_t* group,
                           const float* grad_path, const float* grad_scale, double* grad_state, float* grad_update,
                           float* grad_weights) {
  const int64_t slots = s.num_slots * s.size;
  for (int64_t t = s.num_tokens - 1; t >= 0; --t) {
    const float* a = weights + t * s.num_slots;
    const float* m = update + t * s.size;
    float* grad_m = grad_update + t * s.size;
    for (int64_t j = s.begin; j < s.end; ++j) grad_m[j] = 0;
    if (group[t] < 0) {
      for (int64_t n = 0; n < s.num_slots; ++n) grad_weights[t * s.num_slots + n] = 0;
      continue;
    }
    const float scale = grad_scale ? grad_scale[group[t]] : 1.0f;
    for (int64_t n = 0; n < s.num_slots; ++n) {
      const float* g = grad_path + t * slots + n * s.size;
      double* suffix = grad_state + group[t] * slots + n * s.size;
      float dot = 0;
      for (int64_t j = s.begin; j < s.end; ++j) {
        suffix[j] += g[j];
        const float grad_delta = scale * static_cast<float>(suffix[j]);  // Eq. 9
        grad_m[j] += a[n] * grad_delta;
        dot += m[j] * grad_delta;
      }
      grad_weights[t * s.num_slots + n] = dot;
    }
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(SegmentedScan);
HWY_EXPORT(SegmentedScanBackward);

void segmented_scan(const SegmentedScanShape& shape, const float* weights, const float* update, const int64_t* group,
                    const int32_t* path_in, int64_t* state, int32_t* path_out) {
  HWY_DYNAMIC_DISPATCH(SegmentedScan)(shape, weights, update, group, path_in, state, path_out);
}

void segmented_scan_backward(const SegmentedScanShape& shape, const float* weights, const float* update,
                             const int64_t* group, const float* grad_path, const float* grad_scale, double* grad_state,
                             float* grad_update, float* grad_weights) {
  HWY_DYNAMIC_DISPATCH(SegmentedScanBackward)
  (shape, weights, update, group, grad_path, grad_scale, grad_state, grad_update, grad_weights);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
