#include "kernels/phasor.h"

#include <algorithm>
#include <cstring>
#include <numbers>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/phasor.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

constexpr double kTurnsPerRadian = 0x1p64 / (2 * std::numbers::pi);

using Doubles = hn::ScalableTag<double>;
using Longs = hn::ScalableTag<int64_t>;
using HalfFloats = hn::Rebind<float, Doubles>;  // as many floats as a vector holds doubles
using HalfInts = hn::Rebind<int32_t, Doubles>;

// round(x) mod 2^64 of a double of any size below 2^83. No conversion of 64 bits is needed: the number is cut at 2^32,
// and adding 1.5 * 2^52 (or 2^52) leaves each integer half in the low bits of the double.
HWY_INLINE hn::Vec<Longs> round_to_turns(hn::Vec<Doubles> x) {
  const Doubles d;
  const Longs i;
  const auto high = hn::Floor(hn::Mul(x, hn::Set(d, 0x1p-32)));
  const auto low = hn::Round(hn::NegMulAdd(high, hn::Set(d, 0x1p32), x));  // [0, 2^32], exact before rounding
  const auto high_bits = hn::ShiftLeft<32>(hn::BitCast(i, hn::Add(high, hn::Set(d, 0x1.8p52))));
  const auto low_bits = hn::Xor(hn::BitCast(i, hn::Add(low, hn::Set(d, 0x1p52))), hn::BitCast(i, hn::Set(d, 0x1p52)));
  return hn::Add(high_bits, low_bits);
}

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
    const int32_t* anchor = anchors + std::max<int64_t>(group[t], 0) * slots;
    for (int64_t n = 0; n < num_slots; ++n, anchor += size, features += 2 * size) {
      const int32_t* here = path ? path + t * slots + n * size : nullptr;
      int64_t j = 0;
      for (; j + lanes <= size; j += lanes) {
        const SinCos c = sincos_turns(hn::Add(hn::LoadU(i, here ? here + j : kZeros), hn::LoadU(i, anchor + j)));
        hn::StoreU(c.sin, d, features + j);
        hn::StoreU(c.cos, d, features + size + j);
      }
      if (j < size) {
        for (int64_t l = 0; l < size - j; ++l)
          tail[l] = static_cast<int32_t>(static_cast<uint32_t>(anchor[j + l]) + (here ? here[j + l] : 0u));
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

// One vector of channels of one slot.
HWY_INLINE void AddTurns(float weight, const float* update, const int32_t* path_in, int64_t* state, int32_t* path_out) {
  const Doubles d;
  const Longs i;
  const HalfFloats f;
  const HalfInts h;
  const auto delta = hn::Mul(hn::Set(f, weight), hn::LoadU(f, update));  // the float product is the increment (Eq. 5)
  const auto turns = round_to_turns(hn::Mul(hn::PromoteTo(d, delta), hn::Set(d, kTurnsPerRadian)));
  const auto sum = hn::Add(hn::LoadU(i, state), turns);
  hn::StoreU(sum, i, state);
  const hn::RebindToUnsigned<Longs> u;
  auto top = hn::BitCast(h, hn::TruncateTo(hn::RebindToUnsigned<HalfInts>(), hn::ShiftRight<32>(hn::BitCast(u, sum))));
  if (path_in) top = hn::Add(top, hn::LoadU(h, path_in));
  hn::StoreU(top, h, path_out);
}

void PhasorScan(const PhasorScanShape& s, const float* weights, const float* update, const int64_t* group,
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

void PhasorScanBackward(const PhasorScanShape& s, const float* weights, const float* update, const int64_t* group,
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

HWY_EXPORT(RadiansToTurns);
HWY_EXPORT(CircleFeatures);
HWY_EXPORT(CircleFeaturesBackward);
HWY_EXPORT(SumByGroup);
HWY_EXPORT(PhasorScan);
HWY_EXPORT(PhasorScanBackward);

void radians_to_turns(int64_t count, const float* radians, int64_t* turns) {
  HWY_DYNAMIC_DISPATCH(RadiansToTurns)(count, radians, turns);
}

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

void phasor_scan(const PhasorScanShape& shape, const float* weights, const float* update, const int64_t* group,
                 const int32_t* path_in, int64_t* state, int32_t* path_out) {
  HWY_DYNAMIC_DISPATCH(PhasorScan)(shape, weights, update, group, path_in, state, path_out);
}

void phasor_scan_backward(const PhasorScanShape& shape, const float* weights, const float* update, const int64_t* group,
                          const float* grad_path, const float* grad_scale, double* grad_state, float* grad_update,
                          float* grad_weights) {
  HWY_DYNAMIC_DISPATCH(PhasorScanBackward)
  (shape, weights, update, group, grad_path, grad_scale, grad_state, grad_update, grad_weights);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
