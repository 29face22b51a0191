// Eq. 8 without W_o. The values V_n = W_v Phi_n + b_v of N slots are never computed: the weights of a head sum to one,
// so sum_n a_n V_n = W_v (sum_n a_n Phi_n) + b_v. Features are mixed first and projected once per head.
#include "kernels/phase_attention.h"
#include "ops/common.h"

namespace pmnet::ops {
namespace {

Tensor reference(const Tensor& weights, const Tensor& features, const Tensor& w_v, const Tensor& b_v) {
  const int64_t R = weights.size(2), M = w_v.size(0) / R;
  const Tensor values = at::linear(features, w_v, b_v).unflatten(-1, {R, M}).transpose(2, 3);  // [B,T,R,N,M]
  return (weights.unsqueeze(-1) * values).sum(-2).flatten(-2);                                 // Eq. 8
}

constexpr int64_t kBlock = 512;  // tokens whose mixed features are held at once

struct Mixer {
  Tensor weights, features;  // [B,T,R,N], [B,T,N,2M]
  int64_t R = weights.size(2), N = weights.size(3), width = features.size(3);
  int64_t tokens = weights.size(0) * weights.size(1), block = std::min(kBlock, tokens);
  Tensor mixed = at::empty({block, R, width}, weights.options());  // of one block

  // mixed = sum_n weights[r,n] features[n] for the tokens [first, first + count).
  void mix(int64_t first, int64_t count) const {
    for_each_range(count, num_ranges(count, 8), [&](int64_t, int64_t begin, int64_t end) {
      const int64_t at = first + begin;
      kernels::mix_features(N, R, width, end - begin, data_at(weights, at * R * N), data_at(features, at * N * width),
                            mutable_data_at(mixed, begin * R * width));
    });
  }
};

struct PhaseValues : KernelFunction<PhaseValues> {
  static constexpr const char* kName = "phase_values";

  static Tensor forward(AutogradContext* ctx, const Tensor& weights, const Tensor& features, const Tensor& w_v,
                        const Tensor& b_v) {
    const Mixer m{weights.contiguous(), features.contiguous()};
    const int64_t M = w_v.size(0) / m.R;
    const Tensor out = at::empty({m.tokens, m.R * M}, m.weights.options());
    for (int64_t first = 0; first < m.tokens; first += m.block) {
      const int64_t count = std::min(m.block, m.tokens - first);
      m.mix(first, count);
      for (int64_t r = 0; r < m.R; ++r) {
        Tensor here = out.narrow(0, first, count).narrow(1, r * M, M);
        at::addmm_out(here, b_v.narrow(0, r * M, M), m.mixed.narrow(0, 0, count).select(1, r),
                      w_v.narrow(0, r * M, M).t());
      }
    }
    ctx->save_for_backward({m.weights, m.features, w_v});
    return out.view({weights.size(0), weights.size(1), m.R * M});
  }

  static variable_list gradients(AutogradContext*, const variable_list& saved, variable_list grads) {
    const Mixer m{saved[0], saved[1]};
    const Tensor& w_v = saved[2];
    const int64_t M = w_v.size(0) / m.R, R = m.R, N = m.N, width = m.width;
    const Tensor grad = grads[0].contiguous().view({m.tokens, R * M});
    const Tensor grad_weights = at::empty_like(m.weights), grad_features = at::empty_like(m.features);
    const Tensor grad_w = at::zeros_like(w_v), grad_mixed = at::empty_like(m.mixed);
    for (int64_t first = 0; first < m.tokens; first += m.block) {
      const int64_t count = std::min(m.block, m.tokens - first);
      m.mix(first, count);
      for (int64_t r = 0; r < R; ++r) {
        const Tensor grad_r = grad.narrow(0, first, count).narrow(1, r * M, M);
        Tensor grad_mixed_r = grad_mixed.narrow(0, 0, count).select(1, r);
        at::mm_out(grad_mixed_r, grad_r, w_v.narrow(0, r * M, M));
        grad_w.narrow(0, r * M, M).addmm_(grad_r.t(), m.mixed.narrow(0, 0, count).select(1, r));
      }
      for_each_range(count, num_ranges(count, 8), [&](int64_t, int64_t begin, int64_t end) {
        const int64_t at = first + begin;
        kernels::mix_features_backward(N, R, width, end - begin, data_at(m.weights, at * R * N),
                                       data_at(m.features, at * N * width), data_at(grad_mixed, begin * R * width),
                                       mutable_data_at(grad_weights, at * R * N),
                                       mutable_data_at(grad_features, at * N * width));
      });
    }
    return {grad_weights, grad_features, grad_w, grad.sum(0)};
  }
};

}  // namespace

Tensor phase_values(const Tensor& weights, const Tensor& features, const Tensor& w_v, const Tensor& b_v) {
  TORCH_CHECK(weights.dim() == 4 && features.dim() == 4 && weights.size(2) > 0 &&
                  weights.sizes().slice(0, 2) == features.sizes().slice(0, 2) && weights.size(3) == features.size(2) &&
                  w_v.dim() == 2 && w_v.size(1) == features.size(3) && w_v.size(0) % weights.size(2) == 0 &&
                  b_v.dim() == 1 && b_v.size(0) == w_v.size(0),
              "phase_values: weights ", weights.sizes(), ", features ", features.sizes(), ", w_v ", w_v.sizes(),
              ", b_v ", b_v.sizes(), " do not fit; expected [B,T,R,N], [B,T,N,2M], [R*M,2M] and [R*M]");
  return use_kernels(weights, features, w_v, b_v) ? PhaseValues::apply(weights, features, w_v, b_v)
                                                  : reference(weights, features, w_v, b_v);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("phase_values(Tensor weights, Tensor features, Tensor w_v, Tensor b_v) -> Tensor", phase_values);
}

}  // namespace pmnet::ops
