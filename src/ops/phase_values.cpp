#include "kernels/phase_attention.h"
#include "ops/common.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

constexpr int64_t kBlock = 512;  // tokens whose mixed features are alive at once

struct Mixer {
  Tensor weights, features;  // [tokens,R,N], [tokens,N,2M]
  int64_t R, N, width;

  void mix(int64_t first, int64_t count, Tensor& mixed) const {
    for_each_range(count, num_ranges(count, 8), [&](int64_t, int64_t begin, int64_t end) {
      const int64_t at = first + begin;
      kernels::mix_features(N, R, width, end - begin, weights.const_data_ptr<float>() + at * R * N,
                            features.const_data_ptr<float>() + at * N * width,
                            mixed.mutable_data_ptr<float>() + begin * R * width);
    });
  }
};

Mixer mixer_of(const Tensor& weights, const Tensor& features) {
  return {weights, features, weights.size(2), weights.size(3), features.size(3)};
}

struct PhaseValuesFunction : torch::autograd::Function<PhaseValuesFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& weights_in, const Tensor& features_in, const Tensor& w_v,
                        const Tensor& b_v) {
    const Mixer m = mixer_of(weights_in.contiguous(), features_in.contiguous());
    const int64_t B = m.weights.size(0), T = m.weights.size(1), tokens = B * T, M = w_v.size(0) / m.R;
    const int64_t block = std::min(kBlock, tokens);
    Tensor out = at::empty({tokens, m.R * M}, m.weights.options());
    Tensor mixed = at::empty({block, m.R, m.width}, m.weights.options());
    for (int64_t first = 0; first < tokens; first += block) {
      const int64_t count = std::min(block, tokens - first);
      m.mix(first, count, mixed);
      for (int64_t r = 0; r < m.R; ++r) {
        Tensor here = out.narrow(0, first, count).narrow(1, r * M, M);
        at::addmm_out(here, b_v.narrow(0, r * M, M), mixed.narrow(0, 0, count).select(1, r),
                      w_v.narrow(0, r * M, M).t());
      }
    }
    ctx->save_for_backward({m.weights, m.features, w_v});
    return out.view({B, T, m.R * M});
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Mixer m = mixer_of(saved[0], saved[1]);
    const Tensor& w_v = saved[2];
    const int64_t tokens = m.weights.size(0) * m.weights.size(1), M = w_v.size(0) / m.R;
    const int64_t block = std::min(kBlock, tokens);
    const Tensor grad = grads[0].contiguous().view({tokens, m.R * M});
    Tensor grad_weights = at::empty_like(m.weights), grad_features = at::empty_like(m.features);
    Tensor grad_w = at::zeros_like(w_v), mixed = at::empty({block, m.R, m.width}, m.weights.options());
    Tensor grad_mixed = at::empty_like(mixed);
    for (int64_t first = 0; first < tokens; first += block) {
      const int64_t count = std::min(block, tokens - first);
      m.mix(first, count, mixed);
      for (int64_t r = 0; r < m.R; ++r) {
        const Tensor grad_r = grad.narrow(0, first, count).narrow(1, r * M, M);
        Tensor grad_mixed_r = grad_mixed.narrow(0, 0, count).select(1, r);
        at::mm_out(grad_mixed_r, grad_r, w_v.narrow(0, r * M, M));
        grad_w.narrow(0, r * M, M).addmm_(grad_r.t(), mixed.narrow(0, 0, count).select(1, r));
      }
      for_each_range(count, num_ranges(count, 8), [&](int64_t, int64_t begin, int64_t end) {
        const int64_t at = first + begin;
        kernels::mix_features_backward(m.N, m.R, m.width, end - begin,
                                       m.weights.const_data_ptr<float>() + at * m.R * m.N,
                                       m.features.const_data_ptr<float>() + at * m.N * m.width,
                                       grad_mixed.const_data_ptr<float>() + begin * m.R * m.width,
                                       grad_weights.mutable_data_ptr<float>() + at * m.R * m.N,
                                       grad_features.mutable_data_ptr<float>() + at * m.N * m.width);
      });
    }
    return {grad_weights, grad_features, grad_w, grad.sum(0)};
  }
};

Tensor phase_values_cpu(const Tensor& weights, const Tensor& features, const Tensor& w_v, const Tensor& b_v) {
  return fast_path(weights) ? PhaseValuesFunction::apply(weights, features, w_v, b_v)
                            : reference::phase_values(weights, features, w_v, b_v);
}

}  // namespace

Tensor phase_values(const Tensor& weights, const Tensor& features, const Tensor& w_v, const Tensor& b_v) {
  TORCH_CHECK(
      weights.dim() == 4 && features.dim() == 4 && weights.sizes().slice(0, 2) == features.sizes().slice(0, 2) &&
          weights.size(3) == features.size(2) && w_v.dim() == 2 && w_v.size(1) == features.size(3) &&
          w_v.size(0) % std::max<int64_t>(weights.size(2), 1) == 0 && b_v.dim() == 1 && b_v.size(0) == w_v.size(0),
      "phase_values: weights ", weights.sizes(), ", features ", features.sizes(), ", w_v ", w_v.sizes(),
      " do not fit; expected [B,T,R,N], [B,T,N,2M] and [R*M,2M]");
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("pmnet::phase_values", "").typed<decltype(phase_values)>();
  return op.call(weights, features, w_v, b_v);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("phase_values(Tensor weights, Tensor features, Tensor w_v, Tensor b_v) -> Tensor");
}
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) { m.impl("phase_values", reference::phase_values); }
TORCH_LIBRARY_IMPL(pmnet, CPU, m) { m.impl("phase_values", phase_values_cpu); }
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) { m.impl("phase_values", phase_values_cpu); }

}  // namespace pmnet::ops
