// Eq. 1-3 and 7: routing and read weights by the cosine of phase differences.
//
// Keys are N*R*M numbers per token (8,192 at 119M), too many to hold for all tokens: a block of them is produced by a
// matrix product and reduced to N*R scores while it is in cache. Training keeps their tanh for the backward pass, which
// costs less time than a second product.
#include "kernels/phase_attention.h"

#include "ops/common.h"

namespace pmnet::ops {
namespace {

// Eq. 3: softmax_n( sum_j cos(phi_q - phi_k) / sqrt(M) ), phi = pi tanh. query [B,T,R*M], keys [B|1,T|1,N,R*M].
Tensor reference_scores(const Tensor& query, const Tensor& keys, int64_t R) {
  const int64_t B = query.size(0), T = query.size(1), M = query.size(2) / R;
  const Tensor phi_q = std::numbers::pi * query.view({B, T, R, 1, M}).tanh();                 // Eq. 1
  const Tensor phi_k = std::numbers::pi * keys.unflatten(-1, {R, M}).transpose(2, 3).tanh();  // Eq. 2
  return ((phi_q - phi_k).cos().sum(-1) / std::sqrt(static_cast<double>(M))).softmax(-1);     // Eq. 3
}

// Sizes of one call, and the kernel on the contiguous inputs.
struct Scorer {
  Tensor query;                 // [B,T,R*M]
  int64_t tokens, width, N, R;  // width = R*M
  kernels::PhaseShape shape;
  Tensor weights;  // [B,T,R,N], the result

  Scorer(const Tensor& query_in, int64_t num_slots, int64_t num_heads)
      : query(query_in.contiguous()),
        tokens(query.size(0) * query.size(1)),
        width(query.size(2)),
        N(num_slots),
        R(num_heads),
        shape{N, R, width / R},
        weights(at::empty({query.size(0), query.size(1), R, N}, query.options())) {}

  // Tokens from `first` on whose keys [count*N, width] are W_k Phi; they become tanh(W_k Phi + b_k).
  void score(int64_t first, const Tensor& keys, const Tensor& bias) const {
    const int64_t count = keys.size(0) / N;
    for_each_range(count, num_ranges(count, 4), [&](int64_t, int64_t begin, int64_t end) {
      kernels::phase_scores(shape, end - begin, data_at(query, (first + begin) * width),
                            mutable_data_at(keys, begin * N * width), data_at(bias),
                            mutable_data_at(weights, (first + begin) * R * N));
    });
  }

  // All tokens, which share tanh_keys [N, width].
  void score_shared(const Tensor& tanh_keys) const {
    for_each_range(tokens, num_ranges(tokens, 16), [&](int64_t, int64_t begin, int64_t end) {
      kernels::phase_scores_shared(shape, end - begin, data_at(query, begin * width), data_at(tanh_keys),
                                   mutable_data_at(weights, begin * R * N));
    });
  }
};

// Tokens per block: at least 512 rows per product, about 2 MB of keys when the model is small.
int64_t block_tokens(int64_t slots, int64_t width) {
  return std::max<int64_t>({512 / slots, (1 << 19) / (slots * width), 1});
}

// The features of the root, without a path, are the same for every token: N keys in all. features [N,2M]. Returns the
// tanh of the keys.
Tensor scores_shared_keys(const Scorer& s, const Tensor& features, const Tensor& w_k, const Tensor& bias) {
  const Tensor keys = features.mm(w_k.t());
  kernels::tanh_rows(s.N, s.width, mutable_data_at(keys), data_at(bias));
  s.score_shared(keys);
  return keys;
}

// Scores all tokens block by block. keys_of(first, count) says where the keys of a block go. features [tokens*N,2M].
template <class KeysOf>
void score_blocks(const Scorer& s, const Tensor& features, const Tensor& w_k, const Tensor& bias, KeysOf keys_of) {
  const int64_t block = std::min(block_tokens(s.N, s.width), s.tokens);
  for (int64_t first = 0; first < s.tokens; first += block) {
    const int64_t count = std::min(block, s.tokens - first);
    Tensor keys = keys_of(first, count);
    at::mm_out(keys, features.narrow(0, first * s.N, count * s.N), w_k.t());
    s.score(first, keys, bias);
  }
}

// Inference: every block of keys overwrites the one before.
void scores_blocked(const Scorer& s, const Tensor& features, const Tensor& w_k, const Tensor& bias) {
  const int64_t block = std::min(block_tokens(s.N, s.width), s.tokens);
  const Tensor buffer = at::empty({block * s.N, s.width}, s.query.options());
  score_blocks(s, features, w_k, bias, [&](int64_t, int64_t count) { return buffer.narrow(0, 0, count * s.N); });
}

// Training: returns the tanh of all keys, [tokens*N, width].
Tensor scores_blocked_keep_keys(const Scorer& s, const Tensor& features, const Tensor& w_k, const Tensor& bias) {
  const Tensor keys = at::empty({s.tokens * s.N, s.width}, s.query.options());
  score_blocks(s, features, w_k, bias,
               [&](int64_t first, int64_t count) { return keys.narrow(0, first * s.N, count * s.N); });
  return keys;
}

struct Backward {
  Tensor query, features, w_k, keys, weights, grad;
  int64_t width = query.size(2), R = weights.size(2), N = weights.size(3);
  int64_t tokens = query.size(0) * query.size(1);
  Tensor rows = features.view({-1, features.size(3)});
  Tensor grad_query = at::empty_like(query);
  Tensor grad_bias = at::zeros({kRanges, width}, query.options());  // one partial sum per range

  // Tokens [begin, end) with their keys at k; `shared` as for the kernel.
  void run(int64_t range, int64_t begin, int64_t end, const float* k, bool shared, float* grad_k) const {
    kernels::phase_scores_backward({N, R, width / R}, end - begin, data_at(query, begin * width), k, shared,
                                   data_at(weights, begin * R * N), data_at(grad, begin * R * N),
                                   mutable_data_at(grad_query, begin * width), grad_k,
                                   mutable_data_at(grad_bias, range * width));
  }

  variable_list shared_keys() const {
    const Tensor partial = at::zeros({kRanges, N, width}, query.options());
    for_each_range(tokens, num_ranges(tokens, 16), [&](int64_t range, int64_t begin, int64_t end) {
      run(range, begin, end, data_at(keys), /*shared=*/true, mutable_data_at(partial, range * N * width));
    });
    const Tensor grad_keys = partial.sum(0);
    return {grad_query, grad_keys.mm(w_k).view_as(features), grad_keys.t().mm(rows), grad_bias.sum(0), {}, {}};
  }

  variable_list blocked() const {
    Tensor grad_features = at::empty_like(rows), grad_w = at::zeros_like(w_k);
    // Larger blocks than in the forward pass, because each adds to the whole of grad_w.
    const int64_t block = std::min(2 * block_tokens(N, width), tokens);
    const Tensor buffer = at::empty({block * N, width}, query.options());
    for (int64_t first = 0; first < tokens; first += block) {
      const int64_t count = std::min(block, tokens - first);
      const Tensor grad_keys = buffer.narrow(0, 0, count * N);
      for_each_range(count, num_ranges(count, 4), [&](int64_t range, int64_t begin, int64_t end) {
        run(range, first + begin, first + end, data_at(keys, (first + begin) * N * width), /*shared=*/false,
            mutable_data_at(grad_keys, begin * N * width));
      });
      Tensor out = grad_features.narrow(0, first * N, count * N);
      at::mm_out(out, grad_keys, w_k);
      grad_w.addmm_(grad_keys.t(), rows.narrow(0, first * N, count * N));
    }
    return {grad_query, grad_features.view_as(features), grad_w, grad_bias.sum(0), {}, {}};
  }
};

struct PhaseAttention : KernelFunction<PhaseAttention> {
  static constexpr const char* kName = "phase_attention";

  static Tensor forward(AutogradContext* ctx, const Tensor& query, const Tensor& features_in, const Tensor& w_k,
                        const Tensor& b_k, int64_t R, bool keep_keys) {
    const Tensor features = features_in.contiguous(), bias = b_k.contiguous();
    const Scorer s(query, features.size(2), R);
    const Tensor rows = features.view({-1, features.size(3)});
    const bool shared = features.size(0) * features.size(1) == 1 && s.tokens != 1;
    Tensor keys;
    if (shared)
      keys = scores_shared_keys(s, rows, w_k, bias);
    else if (keep_keys)
      keys = scores_blocked_keep_keys(s, rows, w_k, bias);
    else
      scores_blocked(s, rows, w_k, bias);
    ctx->save_for_backward({s.query, features, w_k, keep_keys ? keys : Tensor(), s.weights});
    ctx->saved_data["shared"] = shared;
    return s.weights;
  }

  static variable_list gradients(AutogradContext* ctx, const variable_list& saved, variable_list grads) {
    const Backward b{saved[0], saved[1], saved[2], saved[3], saved[4], grads[0].contiguous()};
    return ctx->saved_data["shared"].toBool() ? b.shared_keys() : b.blocked();
  }
};

}  // namespace

Tensor phase_attention(const Tensor& query, const Tensor& features, const Tensor& w_k, const Tensor& b_k,
                       int64_t num_heads) {
  TORCH_CHECK(query.dim() == 3 && features.dim() == 4 && features.size(2) > 0 && w_k.dim() == 2 &&
                  w_k.size(0) == query.size(2) && w_k.size(1) == features.size(3) && b_k.dim() == 1 &&
                  b_k.size(0) == w_k.size(0),
              "phase_attention: query ", query.sizes(), ", features ", features.sizes(), ", w_k ", w_k.sizes(),
              ", b_k ", b_k.sizes(), " do not fit; expected [B,T,R*M], [B,T,N,2M], [R*M,2M] and [R*M]");
  TORCH_CHECK(num_heads > 0 && query.size(2) > 0 && query.size(2) % num_heads == 0, "phase_attention: ", query.size(2),
              " numbers per query do not divide into ", num_heads, " heads");
  const bool per_token = features.size(0) == query.size(0) && features.size(1) == query.size(1);
  TORCH_CHECK(per_token || features.size(0) * features.size(1) == 1, "phase_attention: features ", features.sizes(),
              " are neither one set nor one per token of query ", query.sizes());
  if (!use_kernels(query, features, w_k, b_k))
    return reference_scores(query, at::linear(features, w_k, b_k), num_heads);
  return PhaseAttention::apply(query, features, w_k, b_k, num_heads, needs_gradient(query, features, w_k, b_k));
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("phase_attention(Tensor query, Tensor features, Tensor w_k, Tensor b_k, int num_heads) -> Tensor",
        phase_attention);
}

}  // namespace pmnet::ops
