// The steps of a forward pass that several architectures share. Each handles all n tokens of a pass.
#include <cmath>
#include <limits>

#include "engine/cpu_engine.h"
#include "kernels/rms_norm.h"
#include "kernels/rotary.h"
#include "kernels/swiglu.h"
#include "kernels/token_attention.h"
#include "kernels/window_attention.h"

namespace pmnet {

void normalize(Pass& pass, const NormWeights& norm) {
  const int64_t d = norm.weight.size(0);
  float *normed = pass.a.normed.resize(pass.n * d), *inverse = pass.a.unused.resize(pass.n);
  pass.for_tokens(d, [&](int64_t begin, int64_t end) {
    kernels::rms_norm(end - begin, d, pass.a.x.data() + begin * d, norm.weight.const_data_ptr<float>(), norm.eps,
                      normed + begin * d, inverse + begin);
  });
}

void add_projection(Pass& pass, const Projection& w, const float* input) {
  const int64_t d = w.num_outputs();
  float *x = pass.a.x.data(), *y = pass.a.residual.resize(pass.n * d);
  pass.a.gemv.run(pass.workers, {product(w, pass.n, input, y)});
  pass.for_tokens(d, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * d; i < end * d; ++i) x[i] += y[i];
  });
}

void rotary_tables(Pass& pass, int64_t head_dim, double theta) {
  const int64_t half = head_dim / 2;
  float *cos = pass.a.cos.resize(pass.n * half), *sin = pass.a.sin.resize(pass.n * half);
  for (int64_t i = 0; i < half; ++i) {
    const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    for (int64_t b = 0; b < pass.batch(); ++b)
      for (int64_t t = 0; t < pass.tokens(b); ++t) {
        // In double: as exact at position 10 million as at 10.
        const double angle = static_cast<double>(pass.state[b].position + t) * frequency;
        cos[(pass.a.first[b] + t) * half + i] = static_cast<float>(std::cos(angle));
        sin[(pass.a.first[b] + t) * half + i] = static_cast<float>(std::sin(angle));
      }
  }
}

namespace {

// Rotates q in place and moves the keys (rotated) and values of sequence b to the end of its window.
KvWindow::Tokens push_keys(Pass& pass, const AttentionWeights& w, int64_t b, KvWindow& window) {
  const int64_t T = pass.tokens(b), half = w.head_dim / 2, from = pass.a.first[b];
  const int64_t query_width = w.num_heads * w.head_dim, key_width = w.num_kv_heads * w.head_dim;
  const KvWindow::Tokens tokens = window.append(T);
  const auto weight = [](const NormWeights& norm) {
    return norm.weight.defined() ? norm.weight.const_data_ptr<float>() : nullptr;
  };
  parallel_rows(pass.workers, T, query_width + key_width, [&](int64_t begin, int64_t end) {
    const int64_t at = from + begin, count = end - begin, place = (tokens.num_keys - T + begin) * key_width;
    const float *cos = pass.a.cos.data() + at * half, *sin = pass.a.sin.data() + at * half;
    float *q = pass.a.q.data() + at * query_width, *inverse = pass.a.unused.data() + at * w.num_heads;
    kernels::rotary({count, w.num_heads, w.head_dim}, q, weight(w.q_norm), cos, sin, w.q_norm.eps, q, inverse);
    kernels::rotary({count, w.num_kv_heads, w.head_dim}, pass.a.k.data() + at * key_width, weight(w.k_norm), cos, sin,
                    w.k_norm.eps, tokens.keys + place, inverse);
    std::copy_n(pass.a.v.data() + at * key_width, count * key_width, tokens.values + place);
  });
  return tokens;
}

// A few queries, each over all heads and its keys in the order they lie in memory. Threads that have no query of their
// own split the keys of one.
void attend_by_token(Pass& pass, const AttentionWeights& w) {
  constexpr int64_t kMinKeys = 16;  // of a part
  const int64_t size = w.num_heads * w.head_dim, key_stride = w.num_kv_heads * w.head_dim;
  const std::vector<KvWindow::Tokens>& windows = pass.a.windows;
  std::vector<Activations::Query>& queries = pass.a.queries;
  queries.clear();
  int64_t most_keys = 1;
  for (int64_t b = 0; b < pass.batch(); ++b)
    for (int64_t t = 0, T = pass.tokens(b); t < T; ++t) {
      const int64_t end = windows[b].num_keys - T + t + 1;
      const int64_t begin = w.window > 0 ? std::max<int64_t>(end - w.window, 0) : 0;
      queries.push_back({windows[b].keys + begin * key_stride, windows[b].values + begin * key_stride, end - begin});
      most_keys = std::max(most_keys, end - begin);
    }
  const int64_t parts =
      std::clamp<int64_t>(pass.workers.count() / pass.n, 1, std::max<int64_t>(most_keys / kMinKeys, 1));
  float* heads = pass.a.heads.data();
  float* log_sums = pass.a.log_sums.resize(pass.n * parts * w.num_heads);
  float* outs = parts > 1 ? pass.a.parts.resize(pass.n * parts * size) : heads;
  parallel_steal(pass.workers, pass.n * parts, [&](int64_t task) {
    const int64_t token = task / parts, part = task % parts;
    const Activations::Query& query = queries[token];
    const int64_t begin = query.num_keys * part / parts, end = query.num_keys * (part + 1) / parts;
    float *out = outs + task * size, *log_sum = log_sums + task * w.num_heads;
    if (begin == end) {
      std::fill_n(out, size, 0.0f);
      std::fill_n(log_sum, w.num_heads, -std::numeric_limits<float>::infinity());
      return;
    }
    kernels::attend_token({.num_heads = w.num_heads,
                           .heads_per_key = w.num_heads / w.num_kv_heads,
                           .width = w.head_dim,
                           .first_key = begin,
                           .num_keys = end,
                           .key_stride = key_stride,
                           .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(w.head_dim)))},
                          pass.a.q.data() + token * size, query.keys, query.values, out, log_sum);
  });
  for (int64_t token = 0; parts > 1 && token < pass.n; ++token)
    kernels::join_parts(parts, w.num_heads, w.head_dim, outs + token * parts * size,
                        log_sums + token * parts * w.num_heads, heads + token * size);
}

// Many queries: blocks of one head and one sequence.
void attend_by_block(Pass& pass, const AttentionWeights& w) {
  constexpr int64_t kQueriesPerTask = 512;
  const int64_t size = w.num_heads * w.head_dim, key_stride = w.num_kv_heads * w.head_dim;
  const std::vector<KvWindow::Tokens>& windows = pass.a.windows;
  const int64_t pieces = (pass.longest + kQueriesPerTask - 1) / kQueriesPerTask;
  float* log_sums = pass.a.log_sums.resize(pass.n * w.num_heads);
  parallel_steal(pass.workers, pass.batch() * w.num_heads * pieces, [&](int64_t task) {
    const int64_t piece = task % pieces, b = task / pieces / w.num_heads, head = task / pieces % w.num_heads;
    const int64_t T = pass.tokens(b), at = pass.a.first[b];
    const int64_t begin = piece * kQueriesPerTask, end = std::min(begin + kQueriesPerTask, T);
    if (begin >= end) return;
    const int64_t query = at * size + head * w.head_dim;
    const int64_t key = head / (w.num_heads / w.num_kv_heads) * w.head_dim;
    kernels::attend({.num_queries = T,
                     .num_keys = windows[b].num_keys,
                     .width = w.head_dim,
                     .query_stride = size,
                     .key_stride = key_stride,
                     .window = w.window,
                     .first_key = 0,
                     .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(w.head_dim))),
                     .drop_threshold = 0,
                     .keep_scale = 1,
                     .row_key = 0,
                     .head = static_cast<uint64_t>(head),
                     .first_position = 0},
                    begin, end, pass.a.q.data() + query, windows[b].keys + key, windows[b].values + key,
                    pass.a.heads.data() + query, log_sums + at * w.num_heads + head * T);
  });
}

}  // namespace

void attend(Pass& pass, const AttentionWeights& w, int64_t layer) {
  constexpr int64_t kFewQueries = 8;  // per sequence; a block of the kernel for many holds 64
  const int64_t query_width = w.num_heads * w.head_dim, key_width = w.num_kv_heads * w.head_dim;
  Activations& a = pass.a;
  normalize(pass, w.norm);
  float *q = a.q.resize(pass.n * query_width), *k = a.k.resize(pass.n * key_width), *v = a.v.resize(pass.n * key_width);
  a.heads.resize(pass.n * query_width);
  a.unused.resize(pass.n * w.num_heads);
  a.gemv.run(pass.workers, {product(w.q, pass.n, a.normed.data(), q), product(w.k, pass.n, a.normed.data(), k),
                            product(w.v, pass.n, a.normed.data(), v)});
  a.windows.clear();
  for (int64_t b = 0; b < pass.batch(); ++b)
    a.windows.push_back(pass.tokens(b) > 0 ? push_keys(pass, w, b, pass.state[b].attention[layer])
                                           : KvWindow::Tokens{});
  if (pass.longest <= kFewQueries)
    attend_by_token(pass, w);
  else
    attend_by_block(pass, w);
  for (int64_t b = 0; b < pass.batch(); ++b) {
    KvWindow& window = pass.state[b].attention[layer];
    if (pass.tokens(b) == 0) continue;
    if (pass.keep_state)
      window.trim();
    else
      window = KvWindow(w.num_kv_heads, w.head_dim, w.window, at::kFloat);
  }
  add_projection(pass, w.o, a.heads.data());
}

void mlp(Pass& pass, const MlpWeights& w) {
  const int64_t f = w.gate.num_outputs();
  Activations& a = pass.a;
  float *gate = a.gate.resize(pass.n * f), *up = a.up.resize(pass.n * f);
  normalize(pass, w.norm);
  a.gemv.run(pass.workers,
             {product(w.gate, pass.n, a.normed.data(), gate), product(w.up, pass.n, a.normed.data(), up)});
  pass.for_tokens(2 * f, [&](int64_t begin, int64_t end) {
    kernels::swiglu((end - begin) * f, gate + begin * f, up + begin * f, gate + begin * f);
  });
  add_projection(pass, w.down, gate);
}

}  // namespace pmnet
