#include "bench/limits.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/statistics.h"
#include "engine/worker_pool.h"

namespace pmnet {

namespace {

double seconds(const std::function<void()>& work) {
  const double start = steady_seconds();
  work();
  return steady_seconds() - start;
}

double seconds_of(const Product& p) {
  const at::Tensor x = at::randn({p.rows, p.inner}), w = at::randn({p.cols, p.inner});
  at::Tensor y = at::empty({p.rows, p.cols});
  std::vector<double> times;
  for (int i = 0; i <= 5; ++i) times.push_back(seconds([&] { at::mm_out(y, x, w.t()); }));
  times.erase(times.begin());  // warm-up
  return median(std::move(times));
}

double flop(const Product& p) { return 2.0 * p.rows * p.inner * p.cols; }

std::vector<Product> attention_products(int64_t rows, int64_t width, int64_t heads, int64_t kv_heads, int64_t head_dim,
                                        double layers) {
  return {{rows, width, heads * head_dim, layers},
          {rows, width, kv_heads * head_dim, 2 * layers},
          {rows, heads * head_dim, width, layers}};
}

std::vector<Product> mlp_products(int64_t rows, int64_t width, int64_t inner, double layers) {
  return {{rows, width, inner, 2 * layers}, {rows, inner, width, layers}};
}

void append(std::vector<Product>& to, const std::vector<Product>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::vector<Product> products(const PmnetConfig& c, int64_t rows) {
  const double L = c.num_layers, levels = c.num_levels();
  const int64_t d = c.hidden_size, M = c.memory_size, N = c.num_memory, R = c.num_read_heads;
  std::vector<Product> all = attention_products(rows, d, c.num_heads, c.num_kv_heads, c.head_dim, L);
  append(all, mlp_products(rows, d, c.intermediate_size, L));
  if (c.memory_modules) {
    append(all, {{rows * N, 2 * M, R * M, L}, {rows, d, R * M, L}, {rows, 2 * M, M, R * L}, {rows, R * M, d, L}});
    append(all, {{rows, d, M, 2 * levels}, {rows, M, M, levels}, {rows * N, 2 * M, M, levels - 1}});
  }
  append(all, {{rows, d, c.vocab_size, 1}});
  return all;
}

std::vector<Product> products(const TransformerConfig& c, int64_t rows) {
  std::vector<Product> all =
      attention_products(rows, c.hidden_size, c.num_heads, c.num_kv_heads, c.head_dim, c.num_layers);
  append(all, mlp_products(rows, c.hidden_size, c.intermediate_size, c.num_layers));
  append(all, {{rows, c.hidden_size, c.vocab_size, 1}});
  return all;
}

std::vector<Product> products(const MambaConfig& c, int64_t rows) {
  const double L = c.num_layers;
  return {{rows, c.hidden_size, 2 * c.intermediate_size, L},
          {rows, c.intermediate_size, c.time_step_rank + 2 * c.state_size, L},
          {rows, c.time_step_rank, c.intermediate_size, L},
          {rows, c.intermediate_size, c.hidden_size, L},
          {rows, c.hidden_size, c.vocab_size, 1}};
}

}  // namespace

std::vector<Product> products_of(const ModelConfig& config, int64_t batch, int64_t context) {
  return std::visit([&](const auto& c) { return products(c, batch * context); }, config);
}

double measure_cube_flops() {
  const Product cube{2048, 2048, 2048, 1};
  return flop(cube) / seconds_of(cube);
}

double measure_shape_flops(const std::vector<Product>& all) {
  double work = 0, time = 0;
  for (const Product& p : all) {
    work += p.times * flop(p);
    time += p.times * seconds_of(p);
  }
  return work / time;
}

ReadRate::ReadRate(double bytes) : buffer_(at::ones({static_cast<int64_t>(bytes) / 8}, at::kLong)) {}

void ReadRate::take_turn() {
  const size_t streams = turns_++ % seconds_.size() + 1;
  const auto* words = reinterpret_cast<const uint64_t*>(buffer_.const_data_ptr<int64_t>());
  std::atomic<uint64_t> sink = 0;
  // On the engine's threads: OpenMP's would spin on their cores while the next bytes are decoded.
  const Workers workers = Workers::from_pool();
  const int64_t size = buffer_.numel(), parts = workers.count();
  seconds_[streams - 1].push_back(seconds([&] {
    workers.run(parts, [&](int64_t part) {
      const int64_t begin = size * part / parts, end = size * (part + 1) / parts;
      sink += kernels::sum_words(words + begin, end - begin, streams);
    });
  }));
}

double ReadRate::best() const {
  double best = 0;
  for (const auto& times : seconds_)
    if (!times.empty()) best = std::max(best, static_cast<double>(buffer_.nbytes()) / median(times));
  return best;
}

}  // namespace pmnet
