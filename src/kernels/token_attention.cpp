#include "kernels/token_attention.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/token_attention.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"
#include "kernels/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// body(key, head, row) for every key that is there and every head; asks for keys ahead, which are too far apart for the
// hardware to foresee.
template <class Body>
HWY_INLINE void ForEachKey(const TokenHeads& h, const float* rows, const Body& body) {
  constexpr int64_t kAhead = 4, kLine = 64 / sizeof(float);
  for (int64_t key = h.first_key; key < h.num_keys; ++key)
    for (int64_t head = 0; head < h.num_heads; ++head) {
      const float* row = rows + key * h.key_stride + head / h.heads_per_key * h.width;
      if (head % h.heads_per_key == 0)
        for (int64_t at = 0; at < h.width; at += kLine) hwy::Prefetch(row + kAhead * h.key_stride + at);
      body(key - h.first_key, head, row);
    }
}

void AttendToken(const TokenHeads& h, const float* q, const float* k, const float* v, float* out) {
  const int64_t count = h.num_keys - h.first_key;
  std::vector<float> probabilities(h.num_heads * count);
  ForEachKey(h, k, [&](int64_t key, int64_t head, const float* row) HWY_ATTR {
    auto dot = hn::Zero(Floats());
    for_each_vector(h.width, [&](size_t d, auto io) HWY_ATTR {
      dot = hn::MulAdd(io.load(q + head * h.width + d), io.load(row + d), dot);
    });
    probabilities[head * count + key] = sum_lanes(dot);
  });
  for (int64_t head = 0; head < h.num_heads; ++head) softmax(count, h.scale, probabilities.data() + head * count);
  std::fill_n(out, h.num_heads * h.width, 0.0f);
  ForEachKey(h, v, [&](int64_t key, int64_t head, const float* row) HWY_ATTR {
    const auto p = hn::Set(Floats(), probabilities[head * count + key]);
    for_each_vector(h.width, [&](size_t d, auto io) HWY_ATTR {
      float* sum = out + head * h.width + d;
      io.store(hn::MulAdd(p, io.load(row + d), io.load(sum)), sum);
    });
  });
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(AttendToken);

void attend_token(const TokenHeads& heads, const float* q, const float* k, const float* v, float* out) {
  HWY_DYNAMIC_DISPATCH(AttendToken)(heads, q, k, v, out);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
