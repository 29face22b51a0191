#include "kernels/phase_attention.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/phase_attention.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

void TanhRows(int64_t rows, int64_t width, float* x, const float* bias) {
  for (int64_t row = 0; row < rows; ++row, x += width) {
    for_each_vector(
        width, [&](size_t j, auto io) HWY_ATTR { io.store(tanh(hn::Add(io.load(x + j), io.load(bias + j))), x + j); });
  }
}

// Eq. 1: sin and cos of the query phase pi tanh(query), for one token.
void QueryCircle(int64_t width, const float* query, float* sin, float* cos) {
  for_each_vector(width, [&](size_t j, auto io) HWY_ATTR {
    const SinCos q = sincos_half_turns(tanh(io.load(query + j)));
    io.store(q.sin, sin + j);
    io.store(q.cos, cos + j);
  });
}

// Softmax over the N scores of each head, in place, divided by sqrt(M) (Eq. 3). Scalar: N is 4 or so.
void SoftmaxSlots(const PhaseShape& shape, float* weights) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.size));
  for (int64_t r = 0; r < shape.num_heads; ++r, weights += shape.num_slots) {
    const float top = *std::max_element(weights, weights + shape.num_slots);
    float total = 0;
    for (int64_t n = 0; n < shape.num_slots; ++n) total += weights[n] = std::exp((weights[n] - top) * scale);
    for (int64_t n = 0; n < shape.num_slots; ++n) weights[n] /= total;
  }
}

// Eq. 2 and 3. cos(q - k) = cos q cos k + sin q sin k: the query's sine and cosine are computed once per token, and
// each key costs one tanh, one sincos and two multiply-adds per channel. kTakeTanh: keys are W_k Phi and become tanh(.
// + b_k).
template <bool kTakeTanh>
void ScoreTokens(const PhaseShape& shape, int64_t tokens, const float* query, float* keys, int64_t key_stride,
                 const float* bias, float* weights) {
  const int64_t N = shape.num_slots, R = shape.num_heads, M = shape.size, width = R * M;
  const int64_t slot_stride = shape.slot_stride > 0 ? shape.slot_stride : width;
  std::vector<float> circle(2 * width);
  float *sin_q = circle.data(), *cos_q = sin_q + width;
  for (int64_t t = 0; t < tokens; ++t, query += width, keys += key_stride, weights += R * N) {
    QueryCircle(width, query, sin_q, cos_q);
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t r = 0; r < R; ++r) {
        float* key = keys + n * slot_stride + r * M;
        auto total = hn::Zero(Floats());
        for_each_vector(M, [&](size_t j, auto io) HWY_ATTR {
          auto k = io.load(key + j);
          if constexpr (kTakeTanh) {
            k = tanh(hn::Add(k, io.load(bias + r * M + j)));
            io.store(k, key + j);
          }
          const SinCos circle_k = sincos_half_turns(k);
          // Masked lanes have sin q = cos q = 0 and add nothing.
          total = hn::MulAdd(io.load(cos_q + r * M + j), circle_k.cos, total);
          total = hn::MulAdd(io.load(sin_q + r * M + j), circle_k.sin, total);
        });
        weights[r * N + n] = sum_lanes(total);
      }
    }
    SoftmaxSlots(shape, weights);
  }
}

void PhaseScores(const PhaseShape& shape, int64_t tokens, const float* query, float* keys, const float* bias,
                 float* weights) {
  ScoreTokens<true>(shape, tokens, query, keys, shape.num_slots * shape.num_heads * shape.size, bias, weights);
}

void PhaseScoresShared(const PhaseShape& shape, int64_t tokens, const float* query, const float* tanh_keys,
                       float* weights) {
  ScoreTokens<false>(shape, tokens, query, const_cast<float*>(tanh_keys), /*key_stride=*/0, nullptr, weights);
}

// Softmax: grad_score_n = a_n (g_n - sum_m a_m g_m) / sqrt(M). Then through cos and phi = pi tanh, per channel: the
// slots are the inner loop, so the query's phase is computed once and its gradient stays in a register.
void PhaseScoresBackward(const PhaseShape& shape, int64_t tokens, const float* query, const float* tanh_keys,
                         bool shared_keys, const float* weights, const float* grad_weights, float* grad_query,
                         float* grad_keys, float* grad_bias) {
  const int64_t N = shape.num_slots, R = shape.num_heads, M = shape.size, width = R * M;
  const int64_t key_stride = shared_keys ? 0 : N * width;
  const float scale = 1.0f / std::sqrt(static_cast<float>(M));
  const Floats d;
  const auto one = hn::Set(d, 1.0f), pi = hn::Set(d, std::numbers::pi_v<float>);
  std::vector<float> grad_scores(N);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t r = 0; r < R; ++r) {
      float mean = 0;
      for (int64_t n = 0; n < N; ++n) mean += weights[r * N + n] * grad_weights[r * N + n];
      for (int64_t n = 0; n < N; ++n) grad_scores[n] = weights[r * N + n] * (grad_weights[r * N + n] - mean) * scale;
      for_each_vector(M, [&](size_t j, auto io) HWY_ATTR {
        const size_t column = r * M + j;
        const auto tanh_q = tanh(io.load(query + column));
        const SinCos q = sincos_half_turns(tanh_q);
        auto grad_phi_q = hn::Zero(d), grad_b = hn::Zero(d);
        for (int64_t n = 0; n < N; ++n) {
          const auto tanh_k = io.load(tanh_keys + n * width + column);
          const SinCos k = sincos_half_turns(tanh_k);
          // d cos(q-k) / dk = sin(q-k) = sin q cos k - cos q sin k
          const auto sin_diff = hn::MulSub(q.sin, k.cos, hn::Mul(q.cos, k.sin));
          const auto grad_phi_k = hn::Mul(hn::Set(d, grad_scores[n]), sin_diff);
          grad_phi_q = hn::Sub(grad_phi_q, grad_phi_k);
          auto grad_k = hn::Mul(hn::Mul(grad_phi_k, pi), hn::NegMulAdd(tanh_k, tanh_k, one));
          grad_b = hn::Add(grad_b, grad_k);
          float* out = grad_keys + n * width + column;
          if (shared_keys) grad_k = hn::Add(grad_k, io.load(out));
          io.store(grad_k, out);
        }
        io.store(hn::Mul(hn::Mul(grad_phi_q, pi), hn::NegMulAdd(tanh_q, tanh_q, one)), grad_query + column);
        io.store(hn::Add(grad_b, io.load(grad_bias + column)), grad_bias + column);
      });
    }
    query += width, grad_query += width, tanh_keys += key_stride, grad_keys += key_stride;
    weights += R * N, grad_weights += R * N;
  }
}

// Eq. 8, the sum over slots, taken on the features before W_v.
void MixFeatures(int64_t num_slots, int64_t num_heads, int64_t width, int64_t tokens, const float* weights,
                 const float* features, float* mixed) {
  const Floats d;
  for (int64_t t = 0; t < tokens; ++t, features += num_slots * width) {
    for (int64_t r = 0; r < num_heads; ++r, weights += num_slots, mixed += width) {
      for_each_vector(width, [&](size_t j, auto io) HWY_ATTR {
        auto total = hn::Zero(d);
        for (int64_t n = 0; n < num_slots; ++n)
          total = hn::MulAdd(hn::Set(d, weights[n]), io.load(features + n * width + j), total);
        io.store(total, mixed + j);
      });
    }
  }
}

void MixFeaturesBackward(int64_t num_slots, int64_t num_heads, int64_t width, int64_t tokens, const float* weights,
                         const float* features, const float* grad_mixed, float* grad_weights, float* grad_features) {
  const Floats d;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t n = 0; n < num_slots; ++n) {
      for (int64_t r = 0; r < num_heads; ++r) {
        const auto weight = hn::Set(d, weights[r * num_slots + n]);
        auto dot = hn::Zero(d);
        for_each_vector(width, [&](size_t j, auto io) HWY_ATTR {
          const auto g = io.load(grad_mixed + r * width + j);
          dot = hn::MulAdd(g, io.load(features + n * width + j), dot);
          float* out = grad_features + n * width + j;
          io.store(r == 0 ? hn::Mul(weight, g) : hn::MulAdd(weight, g, io.load(out)), out);
        });
        grad_weights[r * num_slots + n] = sum_lanes(dot);
      }
    }
    weights += num_heads * num_slots, grad_weights += num_heads * num_slots;
    features += num_slots * width, grad_features += num_slots * width, grad_mixed += num_heads * width;
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(TanhRows);
HWY_EXPORT(PhaseScores);
HWY_EXPORT(PhaseScoresShared);
HWY_EXPORT(PhaseScoresBackward);
HWY_EXPORT(MixFeatures);
HWY_EXPORT(MixFeaturesBackward);

void tanh_rows(int64_t rows, int64_t width, float* x, const float* bias) {
  HWY_DYNAMIC_DISPATCH(TanhRows)(rows, width, x, bias);
}

void phase_scores(const PhaseShape& shape, int64_t tokens, const float* query, float* keys, const float* bias,
                  float* weights) {
  HWY_DYNAMIC_DISPATCH(PhaseScores)(shape, tokens, query, keys, bias, weights);
}

void phase_scores_shared(const PhaseShape& shape, int64_t tokens, const float* query, const float* tanh_keys,
                         float* weights) {
  HWY_DYNAMIC_DISPATCH(PhaseScoresShared)(shape, tokens, query, tanh_keys, weights);
}

void phase_scores_backward(const PhaseShape& shape, int64_t tokens, const float* query, const float* tanh_keys,
                           bool shared_keys, const float* weights, const float* grad_weights, float* grad_query,
                           float* grad_keys, float* grad_bias) {
  HWY_DYNAMIC_DISPATCH(PhaseScoresBackward)
  (shape, tokens, query, tanh_keys, shared_keys, weights, grad_weights, grad_query, grad_keys, grad_bias);
}

void mix_features(int64_t num_slots, int64_t num_heads, int64_t width, int64_t tokens, const float* weights,
                  const float* features, float* mixed) {
  HWY_DYNAMIC_DISPATCH(MixFeatures)(num_slots, num_heads, width, tokens, weights, features, mixed);
}

void mix_features_backward(int64_t num_slots, int64_t num_heads, int64_t width, int64_t tokens, const float* weights,
                           const float* features, const float* grad_mixed, float* grad_weights, float* grad_features) {
  HWY_DYNAMIC_DISPATCH(MixFeaturesBackward)
  (num_slots, num_heads, width, tokens, weights, features, grad_mixed, grad_weights, grad_features);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
