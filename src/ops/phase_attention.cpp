// Keys are N*R*M numbers per token (8,192 at 119M): they are produced by a product block by block and reduced to N*R
// scores while in cache. Training keeps their tanh for the backward, which costs less than a second product.
#include "kernels/phase_attention.h"

#include "ops/common.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

// Tokens per block: at least 512 rows per product, about 2 MB of keys when the model is small.
int64_t block_tokens(int64_t slots, int64_t width) {
  return std::max<int64_t>({512 / slots, (1 << 19) / (slots * width), 1});
}

struct PhaseAttentionFunction : torch::autograd::Function<PhaseAttentionFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& query_in, const Tensor& features_in, const Tensor& w_k,
                        const Tensor& b_k, int64_t R, bool keep_keys) {
    const Tensor query = query_in.contiguous(), features = features_in.contiguous(), bias = b_k.contiguous();
    const int64_t B = query.size(0), T = query.size(1), width = query.size(2), N = features.size(2), tokens = B * T;
    const bool shared = features.size(0) * features.size(1) == 1 && tokens != 1;
    const kernels::PhaseShape shape{N, R, width / R};
    Tensor weights = at::empty({B, T, R, N}, query.options()), keys;
    const float* q = query.const_data_ptr<float>();
    float* a = weights.mutable_data_ptr<float>();
    if (shared) {
      keys = features.view({N, features.size(3)}).mm(w_k.t());
      kernels::tanh_rows(N, width, keys.mutable_data_ptr<float>(), bias.const_data_ptr<float>());
      for_each_range(tokens, num_ranges(tokens, 16), [&](int64_t, int64_t begin, int64_t end) {
        kernels::phase_scores_shared(shape, end - begin, q + begin * width, keys.const_data_ptr<float>(),
                                     a + begin * R * N);
      });
    } else {
      const Tensor rows = features.view({tokens * N, features.size(3)});
      const int64_t block = std::min(block_tokens(N, width), tokens);
      keys = at::empty({keep_keys ? tokens * N : block * N, width}, query.options());
      for (int64_t first = 0; first < tokens; first += block) {
        const int64_t count = std::min(block, tokens - first);
        Tensor here = keys.narrow(0, keep_keys ? first * N : 0, count * N);
        at::mm_out(here, rows.narrow(0, first * N, count * N), w_k.t());
        float* k = here.mutable_data_ptr<float>();
        for_each_range(count, num_ranges(count, 4), [&](int64_t, int64_t begin, int64_t end) {
          kernels::phase_scores(shape, end - begin, q + (first + begin) * width, k + begin * N * width,
                                bias.const_data_ptr<float>(), a + (first + begin) * R * N);
        });
      }
    }
    ctx->save_for_backward({query, features, w_k, keep_keys ? keys : Tensor(), weights});
    ctx->saved_data["shared"] = shared;
    return weights;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &query = saved[0], &features = saved[1], &w_k = saved[2], &keys = saved[3], &weights = saved[4];
    const bool shared = ctx->saved_data["shared"].toBool();
    const Tensor grad = grads[0].contiguous();
    const int64_t tokens = query.size(0) * query.size(1), width = query.size(2);
    const int64_t R = weights.size(2), N = weights.size(3);
    const kernels::PhaseShape shape{N, R, width / R};
    Tensor grad_query = at::empty_like(query), grad_bias = at::zeros({kRanges, width}, query.options());
    const auto backward_rows = [&](int64_t piece, int64_t begin, int64_t end, const float* k, float* grad_k) {
      kernels::phase_scores_backward(shape, end - begin, query.const_data_ptr<float>() + begin * width, k, shared,
                                     weights.const_data_ptr<float>() + begin * R * N,
                                     grad.const_data_ptr<float>() + begin * R * N,
                                     grad_query.mutable_data_ptr<float>() + begin * width, grad_k,
                                     grad_bias.mutable_data_ptr<float>() + piece * width);
    };
    if (shared) {
      Tensor partial = at::zeros({kRanges, N, width}, query.options());
      for_each_range(tokens, num_ranges(tokens, 16), [&](int64_t piece, int64_t begin, int64_t end) {
        backward_rows(piece, begin, end, keys.const_data_ptr<float>(),
                      partial.mutable_data_ptr<float>() + piece * N * width);
      });
      const Tensor grad_keys = partial.sum(0);
      return {grad_query,
              grad_keys.mm(w_k).view_as(features),
              grad_keys.t().mm(features.view({N, features.size(3)})),
              grad_bias.sum(0),
              {},
              {}};
    }
    const Tensor rows = features.view({tokens * N, features.size(3)});
    Tensor grad_features = at::empty_like(rows), grad_w = at::zeros_like(w_k);
    // Larger blocks than forward: each adds to the whole of grad_w.
    const int64_t block = std::min(2 * block_tokens(N, width), tokens);
    Tensor scratch = at::empty({block * N, width}, query.options());
    for (int64_t first = 0; first < tokens; first += block) {
      const int64_t count = std::min(block, tokens - first);
      Tensor grad_keys = scratch.narrow(0, 0, count * N);
      const float* k = keys.const_data_ptr<float>() + first * N * width;
      for_each_range(count, num_ranges(count, 4), [&](int64_t piece, int64_t begin, int64_t end) {
        backward_rows(piece, first + begin, first + end, k + begin * N * width,
                      grad_keys.mutable_data_ptr<float>() + begin * N * width);
      });
      Tensor out = grad_features.narrow(0, first * N, count * N);
      at::mm_out(out, grad_keys, w_k);
      grad_w.addmm_(grad_keys.t(), rows.narrow(0, first * N, count * N));
    }
    return {grad_query, grad_features.view_as(features), grad_w, grad_bias.sum(0), {}, {}};
  }
};

Tensor phase_attention_cpu(const Tensor& query, const Tensor& features, const Tensor& w_k, const Tensor& b_k,
                           int64_t num_heads) {
  if (!fast_path(query)) return reference::phase_attention(query, features, w_k, b_k, num_heads);
  const bool keep_keys = torch::autograd::compute_requires_grad(query, features, w_k, b_k);
  return PhaseAttentionFunction::apply(query, features, w_k, b_k, num_heads, keep_keys);
}

}  // namespace

Tensor phase_attention(const Tensor& query, const Tensor& features, const Tensor& w_k, const Tensor& b_k,
                       int64_t num_heads) {
  TORCH_CHECK(query.dim() == 3 && features.dim() == 4 && w_k.dim() == 2 && w_k.size(0) == query.size(2) &&
                  w_k.size(1) == features.size(3) && b_k.dim() == 1 && b_k.size(0) == w_k.size(0),
              "phase_attention: query ", query.sizes(), ", features ", features.sizes(), ", w_k ", w_k.sizes(),
              ", b_k ", b_k.sizes(), " do not fit; expected [B,T,R*M], [B,T,N,2M], [R*M,2M] and [R*M]");
  TORCH_CHECK(num_heads > 0 && query.size(2) % num_heads == 0, "phase_attention: ", query.size(2),
              " numbers per query do not divide into ", num_heads, " heads");
  const bool per_token = features.size(0) == query.size(0) && features.size(1) == query.size(1);
  TORCH_CHECK(per_token || features.size(0) * features.size(1) == 1, "phase_attention: features ", features.sizes(),
              " are neither one set nor one per token of query ", query.sizes());
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("pmnet::phase_attention", "").typed<decltype(phase_attention)>();
  return op.call(query, features, w_k, b_k, num_heads);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("phase_attention(Tensor query, Tensor features, Tensor w_k, Tensor b_k, int num_heads) -> Tensor");
}
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) { m.impl("phase_attention", reference::phase_attention); }
TORCH_LIBRARY_IMPL(pmnet, CPU, m) { m.impl("phase_attention", phase_attention_cpu); }
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) { m.impl("phase_attention", phase_attention_cpu); }

}  // namespace pmnet::ops
