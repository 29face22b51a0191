// Letters: n tokens of all sequences, N slots and branching, M phases, R read heads, G groups of a level.
#include "engine/pmnet_engine.h"

#include <fmt/format.h>

#include <limits>
#include <numbers>

#include "base/error.h"
#include "kernels/circle_features.h"
#include "kernels/phase_attention.h"
#include "kernels/segmented_scan.h"
#include "kernels/turns.h"

namespace pmnet {

namespace {

// Memory embeddings as 32-bit turns, rounded to nearest: the sum with a path then wraps exactly.
Tensor anchor_turns(const Tensor& radians) {
  if (!kernels::all_within(radians.numel(), radians.const_data_ptr<float>(), kernels::kMaxRadians))
    fail("the memory embeddings hold NaN or values beyond {}; the weights are damaged or training diverged",
         kernels::kMaxRadians);
  Tensor turns = at::empty(radians.sizes(), at::kLong);
  kernels::radians_to_turns(radians.numel(), radians.const_data_ptr<float>(), turns.mutable_data_ptr<int64_t>());
  return turns.add_(int64_t{1} << 31).__rshift__(32).to(at::kInt);
}

// Tokens whose keys are made at once: all of a short pass; else at least 512 rows per product, about 2 MB of keys.
int64_t block_tokens(int64_t n, int64_t slots, int64_t width) {
  return std::min(n, std::max<int64_t>({512 / slots, (1 << 19) / (slots * width), 1}));
}

// Turns cannot represent NaN. A token whose write is not finite becomes NaN as a whole, so that its logits say so, and
// leaves the memory as it is.
void drop_writes_that_are_not_finite(Pass& pass, int64_t N, int64_t M, int64_t width) {
  constexpr float kMaxFactor = 4;  // weights are at most 1, updates at most pi
  float* update = pass.a.update.data();
  const auto fits = [&](int64_t first, int64_t count) {
    return kernels::all_within(count * N, pass.a.weights.data() + first * N, kMaxFactor) &&
           kernels::all_within(count * M, update + first * M, kMaxFactor);
  };
  if (fits(0, pass.n)) return;
  for (int64_t t = 0; t < pass.n; ++t) {
    if (fits(t, 1)) continue;
    std::fill_n(pass.a.weights.data() + t * N, N, 0.0f);
    std::fill_n(update + t * M, M, 0.0f);
    std::fill_n(pass.a.x.data() + t * width, width, std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace

PmnetEngine::PmnetEngine(const EngineWeights& weights, const MemorySwitches& switches)
    : CpuEngine(weights,
                {.embedding = "model.embed_tokens.weight", .ngrams = "model.embed_ngrams", .norm = "model.norm"},
                std::get<PmnetConfig>(weights.config()).rms_norm_eps,
                std::get<PmnetConfig>(weights.config()).tie_word_embeddings),
      c_(std::get<PmnetConfig>(weights.config())),
      recurrence_(switches.recurrence.value_or(c_.memory_cumsum)) {
  for (int64_t level = 0; c_.memory_modules && level < c_.num_levels(); ++level)
    anchors_.push_back(anchor_turns(weights.read_float(fmt::format("model.memory_embeddings.{}", level))));
  for (int64_t l = 0; l < c_.num_layers; ++l) {
    const std::string prefix = fmt::format("model.layers.{}", l);
    const auto projection = [&](const std::string& name) {
      return read_projection(weights, prefix + name, /*with_bias=*/true);
    };
    Layer layer;
    layer.attention = read_attention(weights, prefix, c_.attention_bias, /*norm_heads=*/true, c_.rms_norm_eps);
    layer.attention.num_heads = c_.num_heads;
    layer.attention.num_kv_heads = c_.num_kv_heads;
    layer.attention.head_dim = c_.head_dim;
    layer.attention.window = c_.slides(l) ? c_.sliding_window : 0;
    layer.mlp = read_mlp(weights, prefix, /*with_bias=*/false, c_.rms_norm_eps);
    if (c_.memory_modules && c_.writes(l))
      layer.write = {read_norm(weights, prefix + ".memory_write_module.norm", c_.rms_norm_eps),
                     projection(".memory_write_module.proj_q"),
                     projection(".memory_write_module.proj_k"),
                     projection(".memory_write_module.proj_v"),
                     projection(".memory_write_module.proj_out"),
                     {}};
    if (c_.memory_modules)
      layer.read = {read_norm(weights, prefix + ".memory_read_module.norm", c_.rms_norm_eps),
                    projection(".memory_read_module.proj_q"),
                    projection(".memory_read_module.proj_kv"),
                    projection(".memory_read_module.proj_out"),
                    {}};
    if (layer.write)
      layer.write->anchor_keys =
          make_anchor_keys(weights, prefix + ".memory_write_module", layer.write->k, /*heads=*/1, c_.level_of(l));
    if (layer.read)
      layer.read->anchor_keys =
          make_anchor_keys(weights, prefix + ".memory_read_module", layer.read->kv, c_.num_read_heads, c_.level_of(l));
    layers_.push_back(std::move(layer));
  }
}

Tensor PmnetEngine::make_anchor_keys(const EngineWeights& weights, const std::string& module, const Projection& keys,
                                     int64_t heads, int64_t level) const {
  if (c_.memory_keys == MemoryKeys::kState) return {};
  const int64_t G = c_.num_groups(level), N = c_.num_memory, M = c_.memory_size, width = heads * M;
  const Tensor groups = at::arange(G, at::kLong), features = at::empty({G * N, 2 * M});
  kernels::circle_features(G, N, M, nullptr, anchors_[level].const_data_ptr<int32_t>(),
                           groups.const_data_ptr<int64_t>(), features.mutable_data_ptr<float>());
  const Tensor weight = c_.memory_keys == MemoryKeys::kAnchor ? unpack_weight(keys.weight, 0, width)
                                                              : weights.read_float(module + ".proj_k_anchor.weight");
  return features.mm(weight.t());
}

EngineState PmnetEngine::initial_state(int64_t batch) const {
  SequenceState fresh = fresh_state();
  for (const Layer& layer : layers_)
    fresh.attention.emplace_back(c_.num_kv_heads, c_.head_dim, layer.attention.window, at::kFloat);
  for (const Tensor& level : anchors_)
    fresh.memory.push_back(at::zeros({1, level.size(0), level.size(1), level.size(2)}, at::kLong));
  return EngineState(batch, fresh);
}

void PmnetEngine::run_layers(Pass& pass) const {
  rotary_tables(pass, c_.head_dim, c_.rope_theta);
  pass.a.next_group.assign(pass.n, 0);  // every token starts at the root
  for (int64_t l = 0; l < c_.num_layers; ++l) {
    const Layer& layer = layers_[l];
    attend(pass, layer.attention, l);
    if (layer.write) write(pass, *layer.write, c_.level_of(l));
    if (layer.read) read(pass, *layer.read);
    mlp(pass, layer.mlp);
    if (pass.trace) pass.trace->hidden.push_back(pass.traced(pass.a.x.data(), {width()}, 0.0f));
  }
}

// The deviation from the paper's Eq. 2 is the model's: see model/phasor_memory.cpp.
void PmnetEngine::write(Pass& pass, const WriteWeights& w, int64_t level) const {
  const int64_t N = c_.num_memory, M = c_.memory_size;
  Activations& a = pass.a;
  a.group.swap(a.next_group);
  const bool root = level == 0;
  a.q.resize(pass.n * M);
  a.v.resize(pass.n * M);
  a.path.resize(pass.n * N * M);
  float *weights = a.weights.resize(pass.n * N), *m = a.update.resize(pass.n * M);
  normalize(pass, w.norm);
  if (c_.memory_keys != MemoryKeys::kAnchor)
    find_features(pass, &anchors_[level], root ? nullptr : a.path.data(), a.features);
  if (root && c_.memory_keys == MemoryKeys::kState)
    route_at_root(pass, w);
  else
    route(pass, w);
  a.gemv.run(pass.workers, {product_without_bias(w.out, pass.n, a.v.data(), m)});
  pass.for_tokens(4 * M, [&](int64_t begin, int64_t end) {  // Eq. 5: m = pi tanh(W_out W_v y)
    kernels::tanh_rows(end - begin, M, m + begin * M, w.out.bias_from(0));
    for (int64_t i = begin * M; i < end * M; ++i) m[i] *= std::numbers::pi_v<float>;
  });
  if (pass.trace) {
    pass.trace->num_groups.push_back(c_.num_groups(level));
    pass.trace->groups.push_back(pass.traced(a.group.data(), {}, int64_t{-1}));
    pass.trace->route_weights.push_back(pass.traced(weights, {N}, 0.0f));
  }
  accumulate(pass, level);
  // For the P layers that read this level.
  if (c_.memory_keys != MemoryKeys::kAnchor || c_.memory_values == MemoryValues::kAnchored)
    find_features(pass, &anchors_[level], a.path.data(), a.features);
  if (c_.memory_values == MemoryValues::kBare) find_features(pass, nullptr, a.path.data(), a.bare);
  choose_children(pass);
  if (pass.trace) {
    pass.trace->routes.push_back(pass.traced(a.next_group.data(), {}, int64_t{-1}));
    pass.trace->path.push_back({pass.traced(a.path.data(), {N, M}, int32_t{0}), std::nullopt});
  }
}

// Phi(path + E[group]) = [sin, cos], [n,N,2M].
void PmnetEngine::find_features(Pass& pass, const Tensor* anchors, const int32_t* path, Buffer<float>& buffer) const {
  const int64_t N = c_.num_memory, M = c_.memory_size;
  float* features = buffer.resize(pass.n * N * 2 * M);
  const int32_t* embeddings = anchors ? anchors->const_data_ptr<int32_t>() : nullptr;
  pass.for_tokens(4 * N * M, [&](int64_t begin, int64_t end) {
    kernels::circle_features(end - begin, N, M, path ? path + begin * N * M : nullptr, embeddings,
                             pass.a.group.data() + begin, features + begin * N * 2 * M);
  });
}

void PmnetEngine::score(Pass& pass, const Projection& w, const Tensor& anchor_keys, int64_t R, int64_t first,
                        int64_t count, std::vector<Product> products) const {
  const int64_t N = c_.num_memory, M = c_.memory_size, width = R * M, block = block_tokens(count, N, width);
  float* keys = pass.a.keys.resize(block * N * width);
  const bool split_heads = count <= kMaxGemvRows;  // too few tokens to keep the threads busy
  const int64_t groups = split_heads ? R : 1, heads = R / groups;
  for (int64_t begin = first; begin < first + count; begin += block) {
    const int64_t tokens = std::min(block, first + count - begin);
    if (c_.memory_keys != MemoryKeys::kAnchor) {
      Product p = product_without_bias(w, tokens * N, pass.a.features.data() + begin * N * 2 * M, keys);
      p.outputs = p.y_stride = width;  // proj_kv has the rows of the values too
      products.push_back(p);
    }
    pass.a.gemv.run(pass.workers, products);
    products.clear();
    if (anchor_keys.defined())
      parallel_rows(pass.workers, tokens, 2 * N * width, [&](int64_t from, int64_t to) {
        for (int64_t t = from; t < to; ++t) {
          const float* here = anchor_keys.const_data_ptr<float>() + pass.a.group[begin + t] * N * width;
          float* key = keys + t * N * width;
          if (c_.memory_keys == MemoryKeys::kAnchor)
            std::copy_n(here, N * width, key);
          else
            for (int64_t i = 0; i < N * width; ++i) key[i] += here[i];
        }
      });
    const auto score_tokens = [&](int64_t from, int64_t to, int64_t head) {
      const int64_t at = (begin + from) * R + head;
      kernels::phase_scores({N, heads, M, width}, to - from, pass.a.q.data() + at * M,
                            keys + from * N * width + head * M, w.bias_from(head * M), pass.a.weights.data() + at * N);
    };
    if (split_heads)
      parallel_steal(pass.workers, tokens * groups,
                     [&](int64_t i) { score_tokens(i / groups, i / groups + 1, i % groups); });
    else
      parallel_rows(pass.workers, tokens, 4 * N * width, [&](int64_t from, int64_t to) { score_tokens(from, to, 0); });
  }
}

void PmnetEngine::route(Pass& pass, const WriteWeights& w) const {
  score(pass, w.k, w.anchor_keys, /*heads=*/1, 0, pass.n,
        {product(w.q, pass.n, pass.a.normed.data(), pass.a.q.data()),
         product(w.v, pass.n, pass.a.normed.data(), pass.a.v.data())});
}

// Above the root there is no path: its keys depend on the anchors alone, are the same for every token, and tie exactly.
void PmnetEngine::route_at_root(Pass& pass, const WriteWeights& w) const {
  const int64_t N = c_.num_memory, M = c_.memory_size;
  float* keys = pass.a.keys.resize(N * M);
  pass.a.gemv.run(pass.workers, {product(w.q, pass.n, pass.a.normed.data(), pass.a.q.data()),
                                 product(w.v, pass.n, pass.a.normed.data(), pass.a.v.data()),
                                 product_without_bias(w.k, N, pass.a.features.data(), keys)});
  kernels::tanh_rows(N, M, keys, w.k.bias_from(0));
  pass.for_tokens(4 * N * M, [&](int64_t begin, int64_t end) {
    kernels::phase_scores_shared({N, 1, M}, end - begin, pass.a.q.data() + begin * M, keys,
                                 pass.a.weights.data() + begin * N);
  });
}

// The segmented scan: memory[group] += a m in exact turns, token after token; path += memory[group].
void PmnetEngine::accumulate(Pass& pass, int64_t level) const {
  const int64_t N = c_.num_memory, M = c_.memory_size;
  drop_writes_that_are_not_finite(pass, N, M, width());
  const float *weights = pass.a.weights.data(), *update = pass.a.update.data();
  const int64_t* group = pass.a.group.data();
  int32_t* path = pass.a.path.data();
  const auto path_in = [&](int64_t token) { return level > 0 ? path + token * N * M : nullptr; };
  if (!recurrence_) {  // every token is a separate sequence, and nothing is kept
    constexpr int64_t kOnlyGroup = 0;
    pass.for_tokens(8 * N * M, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> memory(N * M);
      for (int64_t t = begin; t < end; ++t) {
        std::fill(memory.begin(), memory.end(), 0);
        kernels::segmented_scan({1, N, M, 0, M}, weights + t * N, update + t * M, &kOnlyGroup, path_in(t),
                                memory.data(), path + t * N * M);
      }
    });
    return;
  }
  for (int64_t b = 0; b < pass.batch(); ++b)
    if (pass.keep_state) pass.a.backup.save(pass.state[b].memory[level], group + pass.a.first[b], pass.tokens(b));
  // Tasks are a sequence and a slab of channels, which nothing shares.
  const int64_t slabs = pass.longest <= kMaxGemvRows ? 1 : (M + 63) / 64;
  parallel_steal(pass.workers, pass.batch() * slabs, [&](int64_t task) {
    const int64_t b = task / slabs, slab = task % slabs, first = pass.a.first[b];
    kernels::segmented_scan({pass.tokens(b), N, M, M * slab / slabs, M * (slab + 1) / slabs}, weights + first * N,
                            update + first * M, group + first, path_in(first),
                            pass.state[b].memory[level].mutable_data_ptr<int64_t>(), path + first * N * M);
  });
}

// g_{h+1} = g_h N + argmax(a), ties to the lowest index; in a chain g_h.
void PmnetEngine::choose_children(Pass& pass) const {
  const int64_t N = c_.num_memory;
  if (!c_.memory_tree) {
    pass.a.next_group.assign(pass.n, 0);
    return;
  }
  pass.a.next_group.resize(pass.n);
  for (int64_t t = 0; t < pass.n; ++t) {
    const float* here = pass.a.weights.data() + t * N;
    pass.a.next_group[t] = pass.a.group[t] * N + (std::max_element(here, here + N) - here);
  }
}

void PmnetEngine::read(Pass& pass, const ReadWeights& w) const {
  constexpr int64_t kBlock = 512;  // tokens whose mixed features exist at once
  const int64_t N = c_.num_memory, M = c_.memory_size, R = c_.num_read_heads;
  Activations& a = pass.a;
  a.q.resize(pass.n * R * M);
  float *weights = a.weights.resize(pass.n * R * N), *heads = a.heads.resize(pass.n * R * M);
  const float* features = (c_.memory_values == MemoryValues::kBare ? a.bare : a.features).data();
  float* mixed = a.mixed.resize(std::min(pass.n, kBlock) * R * 2 * M);
  normalize(pass, w.norm);
  std::vector<Product> query{product(w.q, pass.n, a.normed.data(), a.q.data())}, values;
  for (int64_t first = 0; first < pass.n; first += kBlock) {
    const int64_t count = std::min(kBlock, pass.n - first);
    score(pass, w.kv, w.anchor_keys, R, first, count, std::move(query));  // Eq. 7
    query.clear();
    // Eq. 8 without W_o, as W_v,r (sum_n a_rn Phi_n) + b_v,r: the weights of a head sum to one.
    parallel_rows(pass.workers, count, 2 * R * N * M, [&](int64_t begin, int64_t end) {
      kernels::mix_features(N, R, 2 * M, end - begin, weights + (first + begin) * R * N,
                            features + (first + begin) * N * 2 * M, mixed + begin * R * 2 * M);
    });
    values.clear();
    for (int64_t r = 0; r < R; ++r)
      values.push_back({&w.kv, (R + r) * M, M, /*add_bias=*/true, count, mixed + r * 2 * M, R * 2 * M,
                        heads + first * R * M + r * M, R * M});
    a.gemv.run(pass.workers, values);
  }
  if (pass.trace) pass.trace->read_weights.push_back(pass.traced(weights, {R, N}, 0.0f));
  add_projection(pass, w.out, heads);
}

}  // namespace pmnet
