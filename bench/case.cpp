#include "bench/case.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/statistics.h"
#include "bench/limits.h"
#include "config/costs.h"
#include "config/presets.h"
#include "engine/session.h"
#include "model/model_folder.h"
#include "train/sequence_loss.h"

namespace pmnet {

namespace {

constexpr uint64_t kSeed = 1;

// Repeats `work`, which handles `bytes` bytes, and gives the median rate. What is done in between is not timed.
double median_rate(const BenchCase& c, double bytes, const std::function<void()>& work,
                   const std::function<void()>& between = {}) {
  using Clock = std::chrono::steady_clock;
  work();  // warm-up
  std::vector<double> rates;
  const auto start = Clock::now();
  while (static_cast<int64_t>(rates.size()) < c.iterations ||
         std::chrono::duration<double>(Clock::now() - start).count() < c.seconds) {
    const auto begin = Clock::now();
    work();
    rates.push_back(bytes / std::chrono::duration<double>(Clock::now() - begin).count());
    if (between) between();
  }
  return median(std::move(rates));
}

Tensor random_bytes(int64_t batch, int64_t length) {
  auto generator = at::detail::createCPUGenerator(kSeed);
  return at::randint(0, 254, {batch, length}, generator, at::kLong);
}

double train_rate(const BenchCase& c, LanguageModel& model) {
  model.require_gradients(true);
  const auto parameters = model.named_parameters();
  const Tensor ids = random_bytes(c.batch, c.context);
  LossOptions options;
  options.forward.training = true;
  options.chunk = c.chunk;
  options.scale = 1.0 / static_cast<double>(ids.numel());
  return median_rate(c, static_cast<double>(ids.numel()), [&] {
    for (auto [name, p] : parameters) p.mutable_grad() = Tensor();
    loss_and_gradients(model, {ids, next_byte_targets(ids)}, options);
    ++options.forward.dropout.step;
  });
}

double forward_rate(const BenchCase& c, const LanguageModel& model) {
  const Tensor ids = random_bytes(c.batch, c.context);
  at::NoGradGuard no_grad;
  return median_rate(c, static_cast<double>(ids.numel()), [&] { model.hidden(ids, nullptr, {}, nullptr); });
}

double prefill_rate(const BenchCase& c, const std::shared_ptr<const Engine>& engine) {
  const Tensor ids = random_bytes(c.batch, c.context);
  return median_rate(c, static_cast<double>(ids.numel()), [&] { Session(engine, c.batch).read(ids); });
}

// In turns with reading a buffer as large as the weights: how fast memory answers changes within seconds.
BenchResult decode(const BenchCase& c, const std::shared_ptr<const Engine>& engine) {
  Session session(engine, c.batch);
  session.read(random_bytes(c.batch, c.context));
  constexpr int64_t kSteps = 16;  // per timed iteration
  const auto steps = [&] {
    for (int64_t i = 0; i < kSteps; ++i) session.read(session.last_logits().argmax(-1, /*keepdim=*/true));
  };
  steps();
  BenchResult result;
  result.peak_bytes = peak_memory_bytes();  // before there is a second buffer
  ReadRate read_rate(weight_bytes(config_of(c), c.weights));
  result.bytes_per_second =
      median_rate(c, static_cast<double>(kSteps * c.batch), steps, /*between=*/[&] { read_rate.take_turn(); });
  result.read_bytes_per_second = read_rate.best();
  return result;
}

BenchResult limits(const BenchCase& c) {
  const ModelConfig config = config_of(c);
  BenchResult result;
  result.cube_flops = measure_cube_flops();
  result.shape_flops = measure_shape_flops(products_of(config, c.batch, c.context));
  result.gemm_flops = std::max(result.cube_flops, result.shape_flops);
  ReadRate read_rate(weight_bytes(config, c.weights));
  for (int i = 0; i < 32; ++i) read_rate.take_turn();
  result.read_bytes_per_second = read_rate.best();
  return result;
}

}  // namespace

ModelConfig config_of(const BenchCase& c) { return like(c.arch, preset(c.preset)); }

double weight_bytes(const ModelConfig& config, const std::string& weights) {
  const double bytes = weights == "int8" ? 1 : weights == "bf16" ? 2 : 4;
  return bytes * static_cast<double>(parameter_count(config));
}

BenchResult run_case(const BenchCase& c) {
  BenchResult result;
  if (c.what == "limits") {
    result = limits(c);
  } else {
    const ops::ImplementationGuard guard(c.path == "reference" ? ops::Implementation::kReference
                                                               : ops::Implementation::kFast);
    std::unique_ptr<LanguageModel> model = make_model(config_of(c));
    model->initialize(kSeed);
    if (c.what == "train") {
      result.bytes_per_second = train_rate(c, *model);
    } else if (c.what == "forward") {
      result.bytes_per_second = forward_rate(c, *model);
    } else if (c.what == "prefill") {
      result.bytes_per_second = prefill_rate(c, make_engine(*model));
    } else if (c.what == "decode") {
      return decode(c, make_engine(EngineWeights(std::move(model), parse_weight_type(c.weights))));
    } else {
      fail("unknown measurement '{}'; expected train, forward, prefill or decode", c.what);
    }
  }
  result.peak_bytes = peak_memory_bytes();
  return result;
}

std::string to_json(const BenchResult& r) {
  return nlohmann::json{{"bytes_per_second", r.bytes_per_second},
                        {"peak_bytes", r.peak_bytes},
                        {"gemm_flops", r.gemm_flops},
                        {"cube_flops", r.cube_flops},
                        {"shape_flops", r.shape_flops},
                        {"read_bytes_per_second", r.read_bytes_per_second}}
      .dump();
}

BenchResult parse_bench_result(const std::string& json_line, const std::string& where) {
  const nlohmann::json json = parse_json(json_line, where);
  BenchResult r;
  std::vector<std::string> problems;
  JsonFields fields(json, problems);
  fields.read("bytes_per_second", r.bytes_per_second);
  fields.read("peak_bytes", r.peak_bytes);
  fields.read_optional("gemm_flops", r.gemm_flops);
  fields.read_optional("cube_flops", r.cube_flops);
  fields.read_optional("shape_flops", r.shape_flops);
  fields.read_optional("read_bytes_per_second", r.read_bytes_per_second);
  if (!problems.empty()) fail("{}: {}", where, problems.front());
  return r;
}

}  // namespace pmnet
