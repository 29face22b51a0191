#include "kernels/token_attention.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/token_attention.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/contrib/math/math-inl.h>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

constexpr int64_t kKeysTogether = 4;

// body(first, count, head, rows) for kKeysTogether keys at a time, then one by one, and every head; asks for keys
// ahead, which are too far apart for the hardware to foresee.
template <class Body>
HWY_INLINE void ForEachKeys(const TokenHeads& h, const float* rows, const Body& body) {
  constexpr int64_t kLine = 64 / sizeof(float);
  const auto keys = [&](int64_t key, auto count) HWY_ATTR {
    const float* row = rows + key * h.key_stride;
    for (int64_t head = 0; head < h.num_heads; row += h.width) {
      for (int64_t i = kKeysTogether; i < kKeysTogether + count; ++i)
        for (int64_t at = 0; at < h.width; at += kLine) hwy::Prefetch(row + i * h.key_stride + at);
      for (const int64_t end = head + h.heads_per_key; head < end; ++head) body(key - h.first_key, count, head, row);
    }
  };
  int64_t key = h.first_key;
  for (; key + kKeysTogether <= h.num_keys; key += kKeysTogether)
    keys(key, std::integral_constant<int64_t, kKeysTogether>());
  for (; key < h.num_keys; ++key) keys(key, std::integral_constant<int64_t, 1>());
}

// softmax(scale * x) in place
void Softmax(int64_t count, float scale, float* x) {
  const Floats d;
  const float top = *std::max_element(x, x + count) * scale;
  auto total = hn::Zero(d);
  for_each_vector(count, [&](size_t j, auto io) HWY_ATTR {
    const auto e = hn::Exp(d, hn::MulSub(io.load(x + j), hn::Set(d, scale), hn::Set(d, top)));
    io.store(e, x + j);
    total = hn::Add(total, io.only_active(e));
  });
  const auto inverse = hn::Set(d, 1.0f / sum_lanes(total));
  for_each_vector(count, [&](size_t j, auto io) HWY_ATTR { io.store(hn::Mul(io.load(x + j), inverse), x + j); });
}

void AttendToken(const TokenHeads& h, const float* q, const float* k, const float* v, float* out) {
  const int64_t num_keys = h.num_keys - h.first_key;
  std::vector<float> probabilities(h.num_heads * num_keys);
  ForEachKeys(h, k, [&](int64_t key, auto count, int64_t head, const float* rows) HWY_ATTR {
    FloatVec dots[count];
    for (auto& dot : dots) dot = hn::Zero(Floats());
    for_each_vector(h.width, [&](size_t d, auto io) HWY_ATTR {
      const auto query = keep_in_register(io.load(q + head * h.width + d));
      for (int i = 0; i < count; ++i) dots[i] = hn::MulAdd(query, io.load(rows + i * h.key_stride + d), dots[i]);
    });
    for (int i = 0; i < count; ++i) probabilities[head * num_keys + key + i] = sum_lanes(dots[i]);
  });
  for (int64_t head = 0; head < h.num_heads; ++head) Softmax(num_keys, h.scale, &probabilities[head * num_keys]);
  std::fill_n(out, h.num_heads * h.width, 0.0f);
  ForEachKeys(h, v, [&](int64_t key, auto count, int64_t head, const float* rows) HWY_ATTR {
    FloatVec p[count];
    for (int i = 0; i < count; ++i) p[i] = hn::Set(Floats(), probabilities[head * num_keys + key + i]);
    for_each_vector(h.width, [&](size_t d, auto io) HWY_ATTR {
      auto sum = io.load(out + head * h.width + d);
      for (int i = 0; i < count; ++i) sum = hn::MulAdd(p[i], io.load(rows + i * h.key_stride + d), sum);
      io.store(sum, out + head * h.width + d);
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
