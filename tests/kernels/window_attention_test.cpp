// The attention of training and prefill against its formula in double, on every instruction set.
#include "kernels/window_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "every_target.h"
#include "kernels/dropout_bits.h"
#include "normal.h"

namespace pmnet::kernels {
namespace {

struct Answer {
  std::vector<double> out, log_sums, grad_q, grad_k, grad_v;
};

// Attention and its derivative written down as their formulas say, in double.
Answer attention(const AttentionHead& h, const float* q, const float* k, const float* v, const float* grad_out) {
  const size_t queries = h.num_queries * h.query_stride, keys = h.num_keys * h.key_stride;
  Answer a{std::vector<double>(queries), std::vector<double>(h.num_queries), std::vector<double>(queries),
           std::vector<double>(keys), std::vector<double>(keys)};
  for (int64_t i = 0; i < h.num_queries; ++i) {
    const int64_t self = h.num_keys - h.num_queries + i, query = i * h.query_stride;
    const int64_t first = std::max(h.first_key, h.window > 0 ? self - h.window + 1 : 0);
    const uint64_t hash = query_key(h.row_key, h.head, h.first_position + i);
    std::vector<double> p(h.num_keys), kept(h.num_keys), grad_p(h.num_keys);
    double total = 0, mean = 0;
    for (int64_t j = first; j <= self; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < h.width; ++d) dot += double{q[query + d]} * k[j * h.key_stride + d];
      total += p[j] = std::exp(dot * h.scale);
      const bool survives_dropout =
          survives(hash, static_cast<uint32_t>(h.first_position + i - self + j), h.drop_threshold);
      kept[j] = survives_dropout ? h.keep_scale : 0;
    }
    a.log_sums[i] = std::log(total);
    for (int64_t j = first; j <= self; ++j) {
      p[j] /= total;
      for (int64_t d = 0; d < h.width; ++d) {
        const int64_t key = j * h.key_stride + d;
        a.out[query + d] += p[j] * kept[j] * v[key];
        a.grad_v[key] += p[j] * kept[j] * grad_out[query + d];
        grad_p[j] += kept[j] * v[key] * grad_out[query + d];
      }
      mean += p[j] * grad_p[j];
    }
    for (int64_t j = first; j <= self; ++j) {
      const double grad_score = p[j] * (grad_p[j] - mean) * h.scale;
      for (int64_t d = 0; d < h.width; ++d) {
        a.grad_q[query + d] += grad_score * k[j * h.key_stride + d];
        a.grad_k[j * h.key_stride + d] += grad_score * q[query + d];
      }
    }
  }
  return a;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want, const char* what) {
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5) << what << ", number " << i;
}

TEST(WindowAttentionKernel, IsTheFormula) {
  constexpr uint32_t kQuarter = 1u << 30;
  on_every_target([&] {
    for (const auto& [queries, keys, width, window, first_key, threshold] : {std::tuple{1, 1, 8, 0, 0, 0u},
                                                                             {70, 270, 5, 0, 3, 0u},
                                                                             {70, 75, 16, 20, 0, kQuarter},
                                                                             {200, 200, 3, 0, 0, kQuarter}}) {
      SCOPED_TRACE(keys);
      const AttentionHead h{.num_queries = queries,
                            .num_keys = keys,
                            .width = width,
                            .query_stride = width,
                            .key_stride = width,
                            .window = window,
                            .first_key = first_key,
                            .scale = 0.4f,
                            .drop_threshold = threshold,
                            .keep_scale = threshold > 0 ? 4.0f / 3 : 1,
                            .row_key = 123456789,
                            .head = 2,
                            .first_position = 1000};
      const auto q = normal(h.num_queries * h.width, 1), k = normal(h.num_keys * h.width, 2);
      const auto v = normal(h.num_keys * h.width, 3), grad_out = normal(h.num_queries * h.width, 4);
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> out(q.size(), nan), log_sums(h.num_queries, nan), grad_q(q.size(), nan);
      std::vector<float> grad_k(k.size(), 0), grad_v(k.size(), 0);
      attend(h, 0, h.num_queries, q.data(), k.data(), v.data(), out.data(), log_sums.data());
      attend_backward(h, q.data(), k.data(), v.data(), out.data(), log_sums.data(), grad_out.data(), grad_q.data(),
                      grad_k.data(), grad_v.data());
      const Answer want = attention(h, q.data(), k.data(), v.data(), grad_out.data());
      expect_near(out, want.out, "out");
      expect_near(log_sums, want.log_sums, "log of the sum");
      expect_near(grad_q, want.grad_q, "gradient of queries");
      expect_near(grad_k, want.grad_k, "gradient of keys");
      expect_near(grad_v, want.grad_v, "gradient of values");
    }
  });
}

}  // namespace
}  // namespace pmnet::kernels
