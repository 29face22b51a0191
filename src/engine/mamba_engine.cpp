// Letters: n tokens of all sequences, E inner channels, S states per channel, K steps the convolution sees.
#include "engine/mamba_engine.h"

#include <fmt/format.h>

#include "kernels/causal_conv.h"
#include "kernels/selective_scan.h"

namespace pmnet {

namespace {

// body(sequence, begin, end) for every sequence that has tokens and every slab of channels; slabs share nothing.
template <typename Body>
void for_slabs(const Pass& pass, int64_t channels, const Body& body) {
  constexpr int64_t kSlab = 64;
  const int64_t slabs = (channels + kSlab - 1) / kSlab;
  parallel_steal(pass.workers, pass.batch() * slabs, [&](int64_t task) {
    const int64_t b = task / slabs, begin = task % slabs * kSlab;
    if (pass.tokens(b) > 0) body(b, begin, std::min(begin + kSlab, channels));
  });
}

}  // namespace

MambaEngine::MambaEngine(const EngineWeights& weights)
    : CpuEngine(
          weights,
          {.embedding = "backbone.embeddings.weight", .ngrams = "backbone.embed_ngrams", .norm = "backbone.norm_f"},
          std::get<MambaConfig>(weights.config()).layer_norm_epsilon,
          std::get<MambaConfig>(weights.config()).tie_word_embeddings),
      c_(std::get<MambaConfig>(weights.config())) {
  for (int64_t l = 0; l < c_.num_layers; ++l) {
    const std::string prefix = fmt::format("backbone.layers.{}", l), mixer = prefix + ".mixer";
    layers_.push_back({.norm = read_norm(weights, prefix + ".norm", c_.layer_norm_epsilon),
                       .in = read_projection(weights, mixer + ".in_proj", c_.use_bias),
                       .x = read_projection(weights, mixer + ".x_proj", /*with_bias=*/false),
                       .dt = read_projection(weights, mixer + ".dt_proj", /*with_bias=*/true),
                       .out = read_projection(weights, mixer + ".out_proj", c_.use_bias),
                       .a = -weights.read_float(mixer + ".A_log").exp(),
                       .d = weights.read_float(mixer + ".D"),
                       .conv_weight = weights.read_float(mixer + ".conv1d.weight").squeeze(1).t().contiguous(),
                       .conv_bias = c_.use_conv_bias ? weights.read_float(mixer + ".conv1d.bias") : Tensor()});
  }
}

EngineState MambaEngine::initial_state(int64_t batch) const {
  SequenceState fresh = fresh_state();
  for (size_t l = 0; l < layers_.size(); ++l)
    fresh.ssm.push_back({at::zeros({1, c_.intermediate_size, c_.conv_kernel - 1}, at::kFloat),
                         at::zeros({1, c_.intermediate_size, c_.state_size}, at::kFloat)});
  return EngineState(batch, fresh);
}

void MambaEngine::run_layers(Pass& pass) const {
  Activations& a = pass.a;
  a.next_ssm.assign(pass.batch(), std::vector<SsmState>(layers_.size()));
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    normalize(pass, layer.norm);
    // [n,2E]: the channels' input, then their gate.
    a.gemv.run(pass.workers,
               {product(layer.in, pass.n, a.normed.data(), a.gate.resize(pass.n * 2 * c_.intermediate_size))});
    convolve(pass, layer, static_cast<int64_t>(l));
    select(pass, layer);
    scan(pass, layer, static_cast<int64_t>(l));
    add_projection(pass, layer.out, a.heads.data());
    if (pass.trace) pass.trace->hidden.push_back(pass.traced(a.x.data(), {width()}, 0.0f));
  }
}

void MambaEngine::convolve(Pass& pass, const Layer& layer, int64_t index) const {
  const int64_t E = c_.intermediate_size, K = c_.conv_kernel;
  const float* input = pass.a.gate.data();
  float* u = pass.a.up.resize(pass.n * E);
  std::vector<Tensor> pasts;  // [K-1,E]
  for (int64_t b = 0; b < pass.batch(); ++b) {
    const int64_t T = pass.tokens(b), recent = std::min(K - 1, T), end = pass.a.first[b + 1];
    const Tensor& past = pass.state[b].ssm[index].conv;  // [1,E,K-1]
    pasts.push_back(past[0].t().contiguous());
    const Tensor last = at::from_blob(const_cast<float*>(input) + (end - recent) * 2 * E, {recent, E}, {2 * E, 1});
    pass.a.next_ssm[b][index].conv = at::cat({past.narrow(2, recent, K - 1 - recent), last.t().unsqueeze(0)}, 2);
  }
  for_slabs(pass, E, [&](int64_t b, int64_t begin, int64_t end) {
    const int64_t first = pass.a.first[b];
    kernels::causal_conv({pass.tokens(b), E, K, 2 * E, begin, end},
                         {.x = input + first * 2 * E,
                          .past = pasts[b].const_data_ptr<float>(),
                          .weight = layer.conv_weight.const_data_ptr<float>(),
                          .bias = layer.conv_bias.defined() ? layer.conv_bias.const_data_ptr<float>() : nullptr},
                         u + first * E);
  });
}

void MambaEngine::select(Pass& pass, const Layer& layer) const {
  const int64_t E = c_.intermediate_size, S = c_.state_size, rank = c_.time_step_rank, all = rank + 2 * S;
  Activations& a = pass.a;
  float *selected = a.selected.resize(pass.n * all), *delta = a.delta.resize(pass.n * E);
  float *b = a.b.resize(pass.n * S), *c = a.c.resize(pass.n * S);
  a.gemv.run(pass.workers, {product(layer.x, pass.n, a.up.data(), selected)});
  Product steps = product(layer.dt, pass.n, selected, delta);
  steps.x_stride = all;
  a.gemv.run(pass.workers, {steps});
  Tensor widths = at::from_blob(delta, {pass.n, E});
  at::softplus_out(widths, widths);
  for (int64_t t = 0; t < pass.n; ++t) {
    std::copy_n(selected + t * all + rank, S, b + t * S);
    std::copy_n(selected + t * all + rank + S, S, c + t * S);
  }
}

void MambaEngine::scan(Pass& pass, const Layer& layer, int64_t index) const {
  const int64_t E = c_.intermediate_size, S = c_.state_size;
  Activations& a = pass.a;
  float* y = a.heads.resize(pass.n * E);
  for (int64_t b = 0; b < pass.batch(); ++b) a.next_ssm[b][index].hidden = pass.state[b].ssm[index].hidden.clone();
  for_slabs(pass, E, [&](int64_t b, int64_t begin, int64_t end) {
    const int64_t first = a.first[b];
    kernels::selective_scan({pass.tokens(b), E, S, 2 * E, begin, end},
                            {.u = a.up.data() + first * E,
                             .delta = a.delta.data() + first * E,
                             .a = layer.a.const_data_ptr<float>(),
                             .b = a.b.data() + first * S,
                             .c = a.c.data() + first * S,
                             .d = layer.d.const_data_ptr<float>(),
                             .z = a.gate.data() + first * 2 * E + E},
                            a.next_ssm[b][index].hidden.mutable_data_ptr<float>(), /*kept=*/nullptr, y + first * E);
  });
}

}  // namespace pmnet
