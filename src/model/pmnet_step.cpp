// Decoding: one byte per stream and no graph. The layers are those of PMNet::hidden, on plain pointers: at this size
// what costs is reading the weights, and every tensor made on the way would be time during which none are read.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/circle_features.h"
#include "kernels/phase_attention.h"
#include "kernels/rms_norm.h"
#include "kernels/rotary.h"
#include "kernels/scratch.h"
#include "kernels/segmented_scan.h"
#include "kernels/swiglu.h"
#include "model/held_once.h"
#include "model/pmnet.h"
#include "ops/share_pieces.h"
#include "ops/team.h"
#include "ops/token_attention.h"

namespace pmnet {

namespace {

using kernels::Scratch;
using Floats = Scratch<float>;

ops::FewProduct product(const Linear& layer, int64_t vectors, const Floats& x, Floats& y) {
  const int64_t rows = layer.num_outputs(), cols = layer.num_inputs();
  return {layer.matrix(), rows, layer.bias_data(), vectors, x.data(), cols, y.data(), rows};
}

// A tensor that may be written into: the same one if nobody else holds it, else a copy.
void make_own(Tensor& tensor) {
  if (!held_once(tensor) || !tensor.is_contiguous()) tensor = tensor.clone(at::MemoryFormat::Contiguous);
}

}  // namespace

struct PMNet::Step {
  const PMNet* model = nullptr;
  State* state = nullptr;
  int64_t B = 0;

  Floats cos, sin;                 // [B,Dh/2]: rotary tables
  Floats x, unit;                  // [B,d]: the residual stream, and its norm
  std::vector<int64_t> first_key;  // [B]: keys before it are not there
  std::vector<int64_t> group;      // [B]: where the token of each stream is in the tree
  Scratch<int32_t> path;           // [B,N,M]: turns collected root to here
  Floats features;                 // [B,N,2M] of the current level
  Scratch<int64_t> turns;          // [B,N,M]: the anchors of each stream's group, and rounded
  Scratch<int32_t> anchors;
  // Of one module after the other.
  Floats q, k, v, heads, y, weights, mixed, gate, up;
  Floats unused;  // what a kernel also returns and nobody reads

  void attend(const DecoderLayer& layer, AttentionState& past);
  void write(const MemoryWrite& module, int64_t level);
  void read(const MemoryRead& module);
  void run_mlp(const DecoderLayer& layer);

  void normalize(const RmsNorm& norm, Floats& out);
  void add_product(const Linear& layer, const Floats& in);  // to the residual stream
  void find_features(int64_t level, const int32_t* path_above);
};

void PMNet::Step::normalize(const RmsNorm& norm, Floats& out) {
  out.resize(x.size());
  unused.resize(B);
  kernels::rms_norm(B, norm.weight.size(0), x.data(), norm.weight.const_data_ptr<float>(), norm.eps, out.data(),
                    unused.data());
}

void PMNet::Step::add_product(const Linear& layer, const Floats& in) {
  y.resize(x.size());
  ops::multiply_few({product(layer, B, in, y)});
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

void PMNet::Step::attend(const DecoderLayer& layer, AttentionState& past) {
  const Attention& attention = layer.self_attn;
  const AttentionShape& s = attention.shape;
  const int64_t query_width = s.num_heads * s.head_dim, key_width = s.num_kv_heads * s.head_dim;
  q.resize(B * query_width);
  k.resize(B * key_width);
  v.resize(B * key_width);
  heads.resize(B * query_width);
  normalize(layer.input_layernorm, unit);
  ops::multiply_few({product(attention.q_proj, B, unit, q), product(attention.k_proj, B, unit, k),
                     product(attention.v_proj, B, unit, v)});
  append_place(past.keys, s.window);
  append_place(past.values, s.window);

  const int64_t num_keys = past.keys.size(1), place = (num_keys - 1) * key_width;
  const int64_t key_row = past.keys.stride(0), value_row = past.values.stride(0);
  float *keys = past.keys.mutable_data_ptr<float>(), *values = past.values.mutable_data_ptr<float>();
  unused.resize(B * s.num_heads);
  first_key.resize(B);
  ops::share_pieces(B, [&](int64_t b) {
    const auto rotate = [&](const float* from, int64_t count, const RmsNorm& norm, float* to) {
      kernels::rotary({1, count, s.head_dim}, from, norm.weight.const_data_ptr<float>(), &cos[b * s.head_dim / 2],
                      &sin[b * s.head_dim / 2], s.norm_eps, to, &unused[b * s.num_heads]);
    };
    rotate(&q[b * query_width], s.num_heads, attention.q_norm, &q[b * query_width]);
    rotate(&k[b * key_width], s.num_kv_heads, attention.k_norm, keys + b * key_row + place);
    std::copy_n(&v[b * key_width], key_width, values + b * value_row + place);
    first_key[b] = std::max<int64_t>(num_keys - state->positions.const_data_ptr<int64_t>()[b] - 1, 0);
  });
  ops::attend_tokens({.rows = B,
                      .num_heads = s.num_heads,
                      .heads_per_key = s.num_heads / s.num_kv_heads,
                      .width = s.head_dim,
                      .num_keys = num_keys,
                      .first_key = first_key.data(),
                      .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim))),
                      .q = q.data(),
                      .k = keys,
                      .v = values,
                      .k_row_stride = key_row,
                      .v_row_stride = value_row,
                      .out = heads.data()});
  forget_oldest(past, s.window);
  add_product(attention.o_proj, heads);
}

void PMNet::Step::find_features(int64_t level, const int32_t* path_above) {
  const Tensor& embeddings = model->memory_embeddings[level];
  const int64_t N = embeddings.size(1), M = embeddings.size(2), width = N * M;
  constexpr int64_t kAlone = 0;  // each stream brings the anchors of its own group
  features.resize(B * width * 2);
  turns.resize(B * width);
  anchors.resize(B * width);
  ops::share_pieces(B, [&](int64_t b) {
    const int64_t at = b * width;
    kernels::radians_to_turns(width, embeddings.const_data_ptr<float>() + group[b] * width, &turns[at]);
    for (int64_t i = at; i < at + width; ++i) anchors[i] = static_cast<int32_t>((turns[i] + (int64_t{1} << 31)) >> 32);
    kernels::circle_features(1, N, M, path_above ? path_above + at : nullptr, &anchors[at], &kAlone, &features[at * 2]);
  });
}

// Eq. 1-6.
void PMNet::Step::write(const MemoryWrite& module, int64_t level) {
  const int64_t N = model->config_.num_memory, M = model->config_.memory_size, G = model->config_.num_groups(level);
  const bool root = level == 0;
  q.resize(B * M);
  v.resize(B * M);
  y.resize(B * M);
  weights.resize(B * N);
  k.resize(B * N * M);
  normalize(module.norm, unit);
  find_features(level, root ? nullptr : path.data());
  // The root's keys depend on its anchors alone: all streams share those of the first.
  ops::FewProduct keys_product = product(module.proj_k, root ? N : B * N, features, k);
  keys_product.bias = nullptr;  // added with the tanh
  ops::multiply_few({product(module.proj_q, B, unit, q), product(module.proj_v, B, unit, v), keys_product});
  if (root) {
    kernels::tanh_rows(N, M, k.data(), module.proj_k.bias_data());
    kernels::phase_scores_shared({N, 1, M}, B, q.data(), k.data(), weights.data());
  } else {
    ops::share_pieces(B, [&](int64_t b) {
      kernels::phase_scores({N, 1, M}, 1, &q[b * M], &k[b * N * M], module.proj_k.bias_data(), &weights[b * N]);
    });
  }
  ops::FewProduct update = product(module.proj_out, B, v, y);
  update.bias = nullptr;  // tanh_rows adds it
  ops::multiply_few({update});
  kernels::tanh_rows(B, M, y.data(), module.proj_out.bias_data());
  for (float& radians : y) radians *= std::numbers::pi_v<float>;

  make_own(*state->memory[level].turns);
  int64_t* memory = state->memory[level].turns->mutable_data_ptr<int64_t>();
  path.resize(B * N * M);
  ops::share_pieces(B, [&](int64_t b) {
    const int64_t at = b * N * M;
    kernels::segmented_scan({1, N, M, 0, M}, weights.data() + b * N, y.data() + b * M, &group[b],
                            root ? nullptr : path.data() + at, memory + b * G * N * M, path.data() + at);
  });
  find_features(level, path.data());
  for (int64_t b = 0; b < B; ++b) {
    const auto here = weights.begin() + b * N;
    group[b] = group[b] * N + (std::max_element(here, here + N) - here);  // the first of equals
  }
}

// Eq. 7-8.
void PMNet::Step::read(const MemoryRead& module) {
  const int64_t N = model->config_.num_memory, M = model->config_.memory_size, R = module.num_heads;
  q.resize(B * R * M);
  k.resize(B * N * R * M);
  weights.resize(B * R * N);
  mixed.resize(B * R * 2 * M);
  heads.resize(B * R * M);
  normalize(module.norm, unit);
  ops::FewProduct keys_product = product(module.proj_kv, B * N, features, k);
  keys_product.rows = keys_product.y_stride = R * M;  // proj_kv holds the keys' rows, then the values'
  keys_product.bias = nullptr;                        // phase_scores adds it
  ops::multiply_few({product(module.proj_q, B, unit, q), keys_product});
  ops::share_pieces(B * R, [&](int64_t i) {
    const int64_t b = i / R, r = i % R;
    kernels::phase_scores({N, 1, M, R * M}, 1, &q[i * M], &k[(b * N * R + r) * M], module.proj_kv.bias_data(r * M),
                          &weights[i * N]);
    kernels::mix_features(N, 1, 2 * M, 1, &weights[i * N], &features[b * N * 2 * M], &mixed[i * 2 * M]);
  });

  std::vector<ops::FewProduct> values;
  for (int64_t r = 0; r < R; ++r) {
    const int64_t first = (R + r) * M;
    values.push_back({module.proj_kv.matrix(first), M, module.proj_kv.bias_data(first), B, mixed.data() + r * 2 * M,
                      R * 2 * M, heads.data() + r * M, R * M});
  }
  ops::multiply_few(values);
  add_product(module.proj_out, heads);
}

void PMNet::Step::run_mlp(const DecoderLayer& layer) {
  const Mlp& mlp = layer.mlp;
  gate.resize(B * mlp.gate_proj.num_outputs());
  up.resize(gate.size());
  normalize(layer.post_attention_layernorm, unit);
  ops::multiply_few({product(mlp.gate_proj, B, unit, gate), product(mlp.up_proj, B, unit, up)});
  const int64_t width = mlp.gate_proj.num_outputs();
  ops::share_pieces(B, [&](int64_t b) { kernels::swiglu(width, &gate[b * width], &up[b * width], &gate[b * width]); });
  add_product(mlp.down_proj, gate);
}

bool PMNet::can_step(const Tensor& ids, const State* state, const ForwardOptions& options, const Trace* trace) const {
  const MemorySwitches& m = options.memory;
  const bool plain_memory =
      m.recurrence.value_or(config_.memory_cumsum) && !m.unconstrained && m.zero_embeddings == ZeroEmbeddings::kNone;
  return state != nullptr && trace == nullptr && ids.size(1) == 1 &&
         ids.size(0) * std::max<int64_t>(config_.num_memory, 1) <= ops::kMaxGemvColumns &&
         !at::GradMode::is_enabled() && !options.training && !options.lengths && plain_memory &&
         ops::current_implementation() == ops::Implementation::kFast && embed_tokens.scalar_type() == at::kFloat &&
         embed_tokens.is_cpu();
}

Tensor PMNet::step(const Tensor& ids, State& state) const {
  // Views that remember no base: a tensor can then tell that nobody else holds its storage.
  const at::AutoDispatchBelowADInplaceOrView plain_views;
  const int64_t B = ids.size(0), d = config_.hidden_size;
  const int64_t half = config_.head_dim / 2;
  thread_local Step pass;  // kept for its memory
  pass.model = this;
  pass.state = &state;
  pass.B = B;
  pass.cos.resize(B * half);
  pass.sin.resize(B * half);
  for (int64_t b = 0; b < B; ++b)
    rotary_row(state.positions.const_data_ptr<int64_t>()[b], 2 * half, config_.rope_theta, &pass.cos[b * half],
               &pass.sin[b * half]);
  pass.x.resize(B * d);
  pass.group.assign(B, 0);
  for (int64_t b = 0; b < B; ++b) {
    const int64_t id = ids.const_data_ptr<int64_t>()[b * ids.stride(0)];
    TORCH_CHECK(id >= 0 && id < config_.vocab_size, "id ", id, " is outside the vocabulary of ", config_.vocab_size);
    std::copy_n(embed_tokens.const_data_ptr<float>() + id * d, d, &pass.x[b * d]);
  }
  ops::with_team([&] {
    for (int64_t l = 0; l < config_.num_layers; ++l) {
      const DecoderLayer& layer = layers[l];
      pass.attend(layer, state.attention[l]);
      if (layer.memory_write_module) pass.write(*layer.memory_write_module, config_.level_of(l));
      if (layer.memory_read_module) pass.read(*layer.memory_read_module);
      pass.run_mlp(layer);
    }
  });
  make_own(state.positions);
  for (int64_t b = 0; b < B; ++b) ++state.positions.mutable_data_ptr<int64_t>()[b];
  Tensor hidden = at::empty({B, 1, d}, embed_tokens.options());
  pass.normalize(norm, pass.unit);
  std::copy(pass.unit.begin(), pass.unit.end(), hidden.mutable_data_ptr<float>());
  return hidden;
}

}  // namespace pmnet
