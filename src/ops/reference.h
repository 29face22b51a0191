// The definition of every op in plain ATen; see ops.h for what each computes.
#pragma once
#include <tuple>

#include "ops/ops.h"

namespace pmnet::ops::reference {

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);
Tensor rotary(const Tensor& x, const OptTensor& weight, const Tensor& cos, const Tensor& sin, double eps);
Tensor window_attention(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& first_key, int64_t window,
                        double scale, double dropout, const OptTensor& row_keys, const OptTensor& positions);
Tensor swiglu(const Tensor& gate, const Tensor& up);
Tensor swiglu_linear(const Tensor& gate, const Tensor& up, const Tensor& weight, const OptTensor& bias);
std::vector<Tensor> rms_norm_linear(const Tensor& x, const Tensor& norm_weight, double eps, at::TensorList weights,
                                    at::TensorList biases);
Tensor circle_features(const OptTensor& turns, const OptTensor& angle, const Tensor& anchors, const Tensor& group,
                       bool unconstrained);
Tensor phase_attention(const Tensor& query, const Tensor& features, const Tensor& w_k, const Tensor& b_k,
                       int64_t num_heads);
Tensor phase_values(const Tensor& weights, const Tensor& features, const Tensor& w_v, const Tensor& b_v);
std::tuple<Tensor, Tensor, Tensor, Tensor> segmented_scan(const Tensor& weights, const Tensor& update,
                                                          const Tensor& group, int64_t num_groups,
                                                          const OptTensor& path_turns, const OptTensor& path_angle,
                                                          const OptTensor& initial_turns,
                                                          const OptTensor& initial_angle, const OptTensor& grad_scale,
                                                          bool unconstrained);
Tensor cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets);
Tensor causal_conv(const Tensor& x, const Tensor& weight, const OptTensor& bias, const OptTensor& past);
std::tuple<Tensor, Tensor> selective_scan(const Tensor& u, const Tensor& delta, const Tensor& a, const Tensor& b,
                                          const Tensor& c, const Tensor& d, const Tensor& z, const OptTensor& initial);

}  // namespace pmnet::ops::reference
