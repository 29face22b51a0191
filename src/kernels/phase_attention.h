// Phase attention over rows of tokens: scores by the cosine of phase differences and softmax over the N slots (Eq. 1-3
// and 7), and the mixing of features by those weights (Eq. 8). All arrays are dense and row-major; one call covers a
// range of tokens on one thread.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

struct PhaseShape {
  int64_t num_slots;  // N
  int64_t num_heads;  // R
  int64_t size;       // M
  // Floats between the keys of two slots, if the heads here are a subset of those in memory; 0: R*M.
  int64_t slot_stride = 0;
};

// Eq. 3: weights [tokens,R,N] = softmax_n( sum_j cos(pi tanh q_j - pi tanh k_nj) / sqrt(M) ). query [tokens,R*M] before
// tanh. keys [tokens,N,R*M] hold W_k Phi on entry and tanh(W_k Phi + b_k) on return, which the backward pass needs.
void phase_scores(const PhaseShape& shape, int64_t tokens, const float* query, float* keys, const float* bias,
                  float* weights);

// The same for keys [N,R*M] that all tokens share, after tanh.
void phase_scores_shared(const PhaseShape& shape, int64_t tokens, const float* query, const float* tanh_keys,
                         float* weights);

// tanh(x + bias) in place, rows x width.
void tanh_rows(int64_t rows, int64_t width, float* x, const float* bias);

// Gradients of phase_scores. grad_weights [tokens,R,N] -> grad_query [tokens,R*M], grad_keys [tokens,N,R*M] (before
// tanh). grad_bias [R*M] is added to. With `shared_keys`, tanh_keys and grad_keys are [N,R*M] and grad_keys is added
// to.
void phase_scores_backward(const PhaseShape& shape, int64_t tokens, const float* query, const float* tanh_keys,
                           bool shared_keys, const float* weights, const float* grad_weights, float* grad_query,
                           float* grad_keys, float* grad_bias);

// mixed [tokens,R,width] = sum_n weights[r,n] features[n], features [tokens,N,width].
void mix_features(int64_t num_slots, int64_t num_heads, int64_t width, int64_t tokens, const float* weights,
                  const float* features, float* mixed);

// grad_mixed -> grad_weights [tokens,R,N] and grad_features [tokens,N,width].
void mix_features_backward(int64_t num_slots, int64_t num_heads, int64_t width, int64_t tokens, const float* weights,
                           const float* features, const float* grad_mixed, float* grad_weights, float* grad_features);

}  // namespace pmnet::kernels
