#include "kernels/token_attention.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/token_attention.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"
#include "kernels/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

constexpr int64_t kKeysTogether = 4;

// Calls body(first, stride, count, head, rows) for every head and kKeysTogether keys at a time, then one by one: keys
// first, first + stride, ... Four sequential streams get more bandwidth from DRAM than one.
template <class Body>
HWY_INLINE void ForEachKeys(const TokenHeads& h, const float* rows, const Body& body) {
  const int64_t num_keys = h.num_keys - h.first_key, stride = num_keys / kKeysTogether;
  const auto keys = [&](int64_t key, auto count) HWY_ATTR {
    const float* row = rows + (h.first_key + key) * h.key_stride;
    for (int64_t head = 0; head < h.num_heads; row += h.width)
      for (const int64_t end = head + h.heads_per_key; head < end; ++head) body(key, stride, count, head, row);
  };
  for (int64_t key = 0; key < stride; ++key) keys(key, std::integral_constant<int64_t, kKeysTogether>());
  for (int64_t key = kKeysTogether * stride; key < num_keys; ++key) keys(key, std::integral_constant<int64_t, 1>());
}

void AttendToken(const TokenHeads& h, const float* q, const float* k, const float* v, float* out, float* log_sums) {
  const int64_t num_keys = h.num_keys - h.first_key;
  std::vector<float> probabilities(h.num_heads * num_keys);
  ForEachKeys(h, k, [&](int64_t key, int64_t stride, auto count, int64_t head, const float* rows) HWY_ATTR {
    FloatVec dots[count];
    for (auto& dot : dots) dot = hn::Zero(Floats());
    for_each_vector(h.width, [&](size_t d, auto io) HWY_ATTR {
      const auto query = keep_in_register(io.load(q + head * h.width + d));
      for (int i = 0; i < count; ++i)
        dots[i] = hn::MulAdd(query, io.load(rows + i * stride * h.key_stride + d), dots[i]);
    });
    for (int i = 0; i < count; ++i) probabilities[head * num_keys + key + i * stride] = sum_lanes(dots[i]);
  });
  for (int64_t head = 0; head < h.num_heads; ++head)
    log_sums[head] = softmax_row(num_keys, h.scale, &probabilities[head * num_keys]);
  std::fill_n(out, h.num_heads * h.width, 0.0f);
  ForEachKeys(h, v, [&](int64_t key, int64_t stride, auto count, int64_t head, const float* rows) HWY_ATTR {
    FloatVec p[count];
    for (int i = 0; i < count; ++i) p[i] = hn::Set(Floats(), probabilities[head * num_keys + key + i * stride]);
    for_each_vector(h.width, [&](size_t d, auto io) HWY_ATTR {
      auto sum = io.load(out + head * h.width + d);
      for (int i = 0; i < count; ++i) sum = hn::MulAdd(p[i], io.load(rows + i * stride * h.key_stride + d), sum);
      io.store(sum, out + head * h.width + d);
    });
  });
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(AttendToken);

void attend_token(const TokenHeads& heads, const float* q, const float* k, const float* v, float* out,
                  float* log_sums) {
  HWY_DYNAMIC_DISPATCH(AttendToken)(heads, q, k, v, out, log_sums);
}

void join_parts(int64_t num_parts, int64_t num_heads, int64_t width, const float* parts, const float* log_sums,
                float* out) {
  for (int64_t head = 0; head < num_heads; ++head, out += width) {
    float top = log_sums[head], total = 0;
    for (int64_t part = 1; part < num_parts; ++part) top = std::max(top, log_sums[part * num_heads + head]);
    std::fill_n(out, width, 0.0f);
    for (int64_t part = 0; part < num_parts; ++part) {
      const int64_t at = part * num_heads + head;
      const float share = std::exp(log_sums[at] - top);
      total += share;
      for (int64_t d = 0; d < width; ++d) out[d] += share * parts[at * width + d];
    }
    for (int64_t d = 0; d < width; ++d) out[d] /= total;
  }
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
