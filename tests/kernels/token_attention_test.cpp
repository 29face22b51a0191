// Attention of one token against sums in double, on every instruction set.
#include "kernels/token_attention.h"

#include <cmath>
#include <limits>
#include <vector>

#include "every_target.h"
#include "normal.h"

namespace pmnet::kernels {
namespace {

// Attention written down as its formula says.
std::vector<double> attention(const TokenHeads& h, const float* q, const float* k, const float* v) {
  std::vector<double> out(h.num_heads * h.width, 0);
  for (int64_t head = 0; head < h.num_heads; ++head) {
    const int64_t at = head / h.heads_per_key * h.width;
    double total = 0;
    for (int64_t key = h.first_key; key < h.num_keys; ++key) {
      double dot = 0;
      for (int64_t d = 0; d < h.width; ++d) dot += double{q[head * h.width + d]} * k[key * h.key_stride + at + d];
      const double weight = std::exp(dot * h.scale);
      total += weight;
      for (int64_t d = 0; d < h.width; ++d) out[head * h.width + d] += weight * v[key * h.key_stride + at + d];
    }
    for (int64_t d = 0; d < h.width; ++d) out[head * h.width + d] /= total;
  }
  return out;
}

TEST(TokenAttention, IsTheFormula) {
  on_every_target([] {
    for (const auto& [heads, per_key, width, first, keys] :
         {std::tuple{1, 1, 8, 0, 1}, {2, 1, 64, 0, 128}, {6, 3, 20, 5, 37}, {4, 4, 3, 2, 9}}) {
      const int64_t stride = heads / per_key * width + 24;
      const auto q = normal(heads * width, 1), k = normal(keys * stride, 2), v = normal(keys * stride, 3);
      const TokenHeads shape{heads, per_key, width, first, keys, stride, 0.3f};
      std::vector<float> out(q.size(), std::numeric_limits<float>::quiet_NaN());
      std::vector<float> log_sums(heads);
      attend_token(shape, q.data(), k.data(), v.data(), out.data(), log_sums.data());
      const auto want = attention(shape, q.data(), k.data(), v.data());
      for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], want[i], 2e-6) << heads << " heads, number " << i;
    }
  });
}

TEST(TokenAttention, OfPartsIsThatOfTheWhole) {
  constexpr int64_t kHeads = 4, kWidth = 24, kKeys = 41, kStride = kHeads * kWidth;
  const auto q = normal(kHeads * kWidth, 1), k = normal(kKeys * kStride, 2), v = normal(kKeys * kStride, 3);
  const auto want = attention({kHeads, 1, kWidth, 0, kKeys, kStride, 0.3f}, q.data(), k.data(), v.data());
  on_every_target([&] {
    const std::vector<int64_t> ends{0, 1, 1, 30, kKeys};  // one part has no keys
    const int64_t parts = static_cast<int64_t>(ends.size()) - 1;
    std::vector<float> outs(parts * q.size(), 0.0f), out(q.size());
    std::vector<float> log_sums(parts * kHeads, -std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < parts; ++i)
      if (ends[i] < ends[i + 1])
        attend_token({kHeads, 1, kWidth, ends[i], ends[i + 1], kStride, 0.3f}, q.data(), k.data(), v.data(),
                     &outs[i * q.size()], &log_sums[i * kHeads]);
    join_parts(parts, kHeads, kWidth, outs.data(), log_sums.data(), out.data());
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], want[i], 2e-6) << "number " << i;
  });
}

}  // namespace
}  // namespace pmnet::kernels
