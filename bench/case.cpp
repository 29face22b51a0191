#include "bench/case.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/statistics.h"
#include "bench/limits.h"
#include "config/costs.h"
#include "config/field_table.h"
#include "config/presets.h"
#include "engine/session.h"
#include "model/model_folder.h"
#include "train/sample_parallel.h"

namespace pmnet {

namespace {

constexpr uint64_t kSeed = 1;

struct Rates {
  double per_second = 0, per_cpu_second = 0;
};

// Repeats `work`, which handles `bytes` bytes, and gives the median rates. What is done in between is not timed.
Rates median_rates(const BenchCase& c, double bytes, const std::function<void()>& work,
                   const std::function<void()>& between = {}) {
  using Clock = std::chrono::steady_clock;
  work();  // warm-up
  std::vector<double> rates, cpu_rates;
  const auto start = Clock::now();
  while (static_cast<int64_t>(rates.size()) < c.iterations ||
         std::chrono::duration<double>(Clock::now() - start).count() < c.seconds) {
    const auto begin = Clock::now();
    const std::clock_t cpu_begin = std::clock();
    work();
    const double cpu_ticks = std::max(1.0, static_cast<double>(std::clock() - cpu_begin));
    rates.push_back(bytes / std::chrono::duration<double>(Clock::now() - begin).count());
    cpu_rates.push_back(bytes * CLOCKS_PER_SEC / cpu_ticks);
    if (between) between();
  }
  return {median(std::move(rates)), median(std::move(cpu_rates))};
}

Tensor random_bytes(int64_t batch, int64_t length) {
  auto generator = at::detail::createCPUGenerator(kSeed);
  return at::randint(0, 254, {batch, length}, generator, at::kLong);
}

Rates train_rates(const BenchCase& c, LanguageModel& model) {
  model.require_gradients(true);
  const auto parameters = model.named_parameters();
  SampleParallel samples(model);
  const Tensor ids = random_bytes(c.batch, c.context);
  LossOptions options;
  options.forward.training = true;
  options.chunk = c.chunk;
  options.scale = 1.0 / static_cast<double>(ids.numel());
  return median_rates(c, static_cast<double>(ids.numel()), [&] {
    for (const auto& [name, p] : parameters) p.mutable_grad() = Tensor();
    samples.loss_and_gradients({ids, next_byte_targets(ids)}, options);
    ++options.forward.dropout.step;
  });
}

Rates forward_rates(const BenchCase& c, const LanguageModel& model) {
  const Tensor ids = random_bytes(c.batch, c.context);
  at::NoGradGuard no_grad;
  return median_rates(c, static_cast<double>(ids.numel()), [&] { model.hidden(ids, nullptr, {}, nullptr); });
}

Rates prefill_rates(const BenchCase& c, const std::shared_ptr<const Engine>& engine) {
  const Tensor ids = random_bytes(c.batch, c.context);
  return median_rates(c, static_cast<double>(ids.numel()), [&] { Session(engine, c.batch).read(ids); });
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
  const Rates rates =
      median_rates(c, static_cast<double>(kSteps * c.batch), steps, /*between=*/[&] { read_rate.take_turn(); });
  result.bytes_per_second = rates.per_second;
  result.bytes_per_cpu_second = rates.per_cpu_second;
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

const std::vector<Field<BenchResult>>& result_fields() {
  using R = BenchResult;
  static const std::vector<Field<BenchResult>> fields = {
      {"bytes_per_second", &R::bytes_per_second, "Median over the iterations"},
      {"peak_bytes", &R::peak_bytes, "Peak memory of the process"},
      {"bytes_per_cpu_second", &R::bytes_per_cpu_second, "The same by CPU time of all threads"},
      {"gemm_flops", &R::gemm_flops, "The larger of the two below"},
      {"cube_flops", &R::cube_flops, "Matrix product of 2,048 cubed"},
      {"shape_flops", &R::shape_flops, "Matrix products in the model's shapes"},
      {"read_bytes_per_second", &R::read_bytes_per_second, "Read bandwidth"},
  };
  return fields;
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
    Rates rates;
    if (c.what == "train") {
      rates = train_rates(c, *model);
    } else if (c.what == "forward") {
      rates = forward_rates(c, *model);
    } else if (c.what == "prefill") {
      rates = prefill_rates(c, make_engine(*model));
    } else if (c.what == "decode") {
      return decode(c, make_engine(EngineWeights(std::move(model), parse_weight_type(c.weights))));
    } else {
      fail("unknown measurement '{}'; expected train, forward, prefill or decode", c.what);
    }
    result.bytes_per_second = rates.per_second;
    result.bytes_per_cpu_second = rates.per_cpu_second;
  }
  result.peak_bytes = peak_memory_bytes();
  return result;
}

std::string to_json(const BenchResult& result) {
  nlohmann::json object;
  for (const Field<BenchResult>& field : result_fields()) object[field.key] = field_to_json(field.get(result));
  return object.dump();
}

BenchResult parse_bench_result(const std::string& json_line, const std::string& where) {
  const nlohmann::json object = parse_json(json_line, where);
  BenchResult result;
  for (const Field<BenchResult>& field : result_fields()) {
    const bool required = field.key == "bytes_per_second" || field.key == "peak_bytes";
    if (!object.contains(field.key)) {
      if (required) fail("{}: {} is missing", where, field.key);
      continue;
    }
    try {
      field.set(result, field_from_json(field, object[field.key]));
    } catch (const UserError& error) {
      fail("{}: {}", where, error.what());
    }
  }
  return result;
}

}  // namespace pmnet
