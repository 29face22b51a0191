// Forward and backward of every op at the shapes of a preset, and the products that decoding is made of.
//
// bytes_per_second counts what an op must read and write, once each: its inputs and outputs forward; inputs, the
// gradients of outputs and those of inputs backward. FLOP/s counts additions, multiplications and elementary functions
// of the definition in ops.h; a backward counts as two forwards.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

#include "base/amx_guard.h"
#include "config/presets.h"
#include "engine/packed_weight.h"
#include "engine/quantize.h"
#include "ops/ops.h"

namespace pmnet::ops {
namespace {

using Tensors = std::vector<Tensor>;

constexpr int64_t kTokens = 2048;  // one sequence

struct OpCase {
  std::string name;
  Tensors inputs;  // those of floating point get gradients
  std::function<Tensors(const Tensors&)> run;
  double flop = 0;
  bool has_backward = true;
};

Tensor normal(at::IntArrayRef sizes, double scale = 1) { return at::randn(sizes, at::kFloat) * scale; }
Tensor weight(int64_t rows, int64_t cols) { return normal({rows, cols}, 1 / std::sqrt(static_cast<double>(cols))); }
Tensor angles(at::IntArrayRef sizes) { return at::empty(sizes, at::kFloat).uniform_(-3.14, 3.14); }

double bytes_of(const Tensors& tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

// Letters as in ops.h; d is the hidden width, f that of the feed-forward layer, E and S Mamba's inner width and state.
std::vector<OpCase> cases_of(const PmnetConfig& c) {
  const int64_t T = kTokens, d = c.hidden_size, f = c.intermediate_size, A = c.num_heads, Dh = c.head_dim;
  const int64_t N = c.num_memory, M = c.memory_size, R = c.num_read_heads, V = c.vocab_size, w = c.sliding_window;
  const MambaConfig mamba = mamba_like(c);
  const int64_t E = mamba.intermediate_size, S = mamba.state_size, K = mamba.conv_kernel;
  const auto flop = [](double per_item, std::initializer_list<int64_t> sizes) {
    for (const int64_t size : sizes) per_item *= static_cast<double>(size);
    return per_item;
  };
  const double eps = c.rms_norm_eps;
  const Tensor group = at::randint(0, N, {1, T}, at::kLong);
  // A path as training has it: exact turns and the angles that carry the gradient.
  const auto phases = [](const Tensor& angle) {
    return Phases{.turns = to_turns(angle.detach()).__rshift__(32).to(at::kInt), .angle = angle};
  };
  const auto exact = [&](const Tensor& turns, const Tensor& angle) { return Phases{.turns = turns, .angle = angle}; };
  const Tensor path = angles({1, T, N, M}), turns = *phases(path).turns;
  const Tensor features = normal({1, T, N, 2 * M}).sin();
  const Tensor anchors = normal({N, N, M}, 0.02);

  std::vector<OpCase> cases;
  cases.push_back({"rms_norm",
                   {normal({1, T, d}), normal({d})},
                   [=](const Tensors& in) { return Tensors{rms_norm(in[0], in[1], eps)}; },
                   flop(4, {T, d})});
  cases.push_back({"rotary",
                   {normal({1, T, A, Dh}), normal({Dh})},
                   [=, cos = normal({1, T, Dh / 2}).cos(), sin = normal({1, T, Dh / 2}).sin()](const Tensors& in) {
                     return Tensors{rotary(in[0], in[1], cos, sin, eps)};
                   },
                   flop(7, {T, A, Dh})});
  const double head_scale = 1 / std::sqrt(static_cast<double>(Dh));
  cases.push_back({"window_attention",
                   {normal({1, T, A, Dh}), normal({1, T, A, Dh}), normal({1, T, A, Dh})},
                   [=](const Tensors& in) {
                     return Tensors{window_attention(in[0], in[1], in[2], std::nullopt, w, head_scale, {})};
                   },
                   flop(4, {T, A, w, Dh})});
  cases.push_back({"swiglu",
                   {normal({1, T, f}), normal({1, T, f})},
                   [](const Tensors& in) { return Tensors{swiglu(in[0], in[1])}; },
                   flop(5, {T, f})});
  cases.push_back({"swiglu_linear",
                   {normal({1, T, f}), normal({1, T, f}), weight(d, f)},
                   [](const Tensors& in) { return Tensors{swiglu_linear(in[0], in[1], in[2], std::nullopt)}; },
                   flop(2, {T, f, d}) + flop(5, {T, f})});
  cases.push_back({"rms_norm_linear",
                   {normal({1, T, d}), normal({d}), weight(A * Dh, d), weight(A * Dh, d), weight(A * Dh, d)},
                   [=](const Tensors& in) { return rms_norm_linear(in[0], in[1], eps, {in[2], in[3], in[4]}, {}); },
                   flop(2, {T, 3 * A * Dh, d}) + flop(4, {T, d})});
  cases.push_back(
      {"circle_features",
       {path, anchors},
       [=](const Tensors& in) { return Tensors{circle_features(exact(turns, in[0]), in[1], group, false)}; },
       flop(3, {T, N, M})});
  cases.push_back({"phase_attention",
                   {normal({1, T, R * M}), features, weight(R * M, 2 * M), normal({R * M}, 0.1)},
                   [=](const Tensors& in) { return Tensors{phase_attention(in[0], in[1], in[2], in[3], R)}; },
                   flop(2, {T, N, R * M, 2 * M}) + flop(6, {T, N, R, M})});
  cases.push_back({"phase_scores",
                   {normal({1, T, R * M}), normal({1, T, N, R * M})},
                   [=](const Tensors& in) { return Tensors{phase_scores(in[0], in[1], R)}; },
                   flop(6, {T, N, R, M}),
                   /*has_backward=*/false});
  cases.push_back({"phase_values",
                   {normal({1, T, R, N}).softmax(-1), features, weight(R * M, 2 * M), normal({R * M})},
                   [](const Tensors& in) { return Tensors{phase_values(in[0], in[1], in[2], in[3])}; },
                   flop(2, {T, R * M, 2 * M}) + flop(2, {T, R, N, 2 * M})});
  cases.push_back({"segmented_scan",
                   {normal({1, T, N}).softmax(-1), angles({1, T, M}), path},
                   [=](const Tensors& in) {
                     const SegmentedScanResult out =
                         segmented_scan(in[0], in[1], group, N, exact(turns, in[2]), {}, std::nullopt,
                                        /*unconstrained=*/false);
                     return out.path.angle ? Tensors{*out.path.angle} : Tensors{*out.path.turns};
                   },
                   flop(4, {T, N, M})});
  cases.push_back({"cross_entropy",
                   {normal({T, d}), weight(V, d)},
                   [targets = at::randint(0, V, {T}, at::kLong)](const Tensors& in) {
                     return Tensors{cross_entropy(in[0], in[1], targets)};
                   },
                   flop(2, {T, d, V}) + flop(2, {T, V})});
  cases.push_back({"causal_conv",
                   {normal({1, T, E}), normal({E, K}), normal({E})},
                   [](const Tensors& in) { return Tensors{causal_conv(in[0], in[1], in[2], std::nullopt)}; },
                   flop(2, {T, E, K}) + flop(4, {T, E})});
  cases.push_back({"selective_scan",
                   {normal({1, T, E}), normal({1, T, E}).abs() * 0.01, -normal({E, S}).abs(), normal({1, T, S}),
                    normal({1, T, S}), normal({E}), normal({1, T, E})},
                   [](const Tensors& in) {
                     return Tensors{
                         selective_scan(in[0], in[1], in[2], in[3], in[4], in[5], in[6], std::nullopt).output};
                   },
                   flop(7, {T, E, S}) + flop(6, {T, E})});
  return cases;
}

void set_counters(benchmark::State& state, double flop, double bytes) {
  const auto iterations = static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<int64_t>(bytes * iterations));
  state.counters["FLOP/s"] = benchmark::Counter(flop * iterations, benchmark::Counter::kIsRate);
}

void time_forward(benchmark::State& state, const OpCase& op) {
  at::NoGradGuard no_grad;
  double bytes = 0;
  for ([[maybe_unused]] auto iteration : state) bytes = bytes_of(op.run(op.inputs));
  set_counters(state, op.flop, bytes_of(op.inputs) + bytes);
}

// The graph is kept, so that only the backward is timed.
void time_backward(benchmark::State& state, const OpCase& op) {
  Tensors leaves;
  for (const Tensor& input : op.inputs) leaves.push_back(input.detach().clone().requires_grad_());
  const Tensors outputs = op.run(leaves);
  Tensors seeds;
  for (const Tensor& output : outputs) seeds.push_back(at::ones_like(output));
  for ([[maybe_unused]] auto iteration : state)
    benchmark::DoNotOptimize(torch::autograd::grad(outputs, leaves, seeds, /*retain_graph=*/true));
  set_counters(state, 2 * op.flop, 2 * bytes_of(leaves) + bytes_of(seeds));
}

// One thread: what kernels::gemv does with the rows it is given.
void time_gemv(benchmark::State& state, int64_t rows, int64_t cols, kernels::WeightType type, int64_t vectors) {
  const PackedWeight packed = pack_weight(quantize(weight(rows, cols), type));
  const Tensor x = normal({vectors, cols}), y = at::empty({vectors, rows});
  const kernels::RowPartition partition =
      kernels::partition_rows(packed.rows_from(0), rows, vectors, /*num_threads=*/1);
  kernels::Operands operands;
  for ([[maybe_unused]] auto iteration : state) {
    kernels::bind_operands(packed.rows_from(0), vectors, x.const_data_ptr<float>(), cols, operands);
    for (int64_t v = 0; v < vectors && packed.scales.defined(); ++v)
      kernels::quantize_operand(packed.rows_from(0), v, operands);
    for (int64_t i = 0; i < partition.size(); ++i)
      kernels::gemv(packed.rows_from(0), partition.range(i), nullptr, operands, y.mutable_data_ptr<float>(), rows);
  }
  Tensors touched{packed.data, x, y};
  if (packed.scales.defined()) touched.push_back(packed.scales);
  set_counters(state, 2.0 * static_cast<double>(rows * cols * vectors), bytes_of(touched));
}

void register_all() {
  using benchmark::RegisterBenchmark;
  for (const char* preset_name : {"30m", "119m"}) {
    const PmnetConfig config = preset(preset_name);
    for (const OpCase& op : cases_of(config)) {
      RegisterBenchmark(fmt::format("{}/forward/{}", op.name, preset_name).c_str(), time_forward, op)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
      if (op.has_backward)
        RegisterBenchmark(fmt::format("{}/backward/{}", op.name, preset_name).c_str(), time_backward, op)
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
    }
    const int64_t rows = config.num_read_heads * config.memory_size, cols = 2 * config.memory_size;
    const std::pair<const char*, kernels::WeightType> types[] = {{"float32", kernels::WeightType::kF32},
                                                                 {"bf16", kernels::WeightType::kBF16},
                                                                 {"int8", kernels::WeightType::kInt8}};
    for (const auto& [type_name, type] : types)
      for (const int64_t vectors : {1, 4, 8, 32})
        RegisterBenchmark(fmt::format("gemv/{}/{}_operands/{}", type_name, vectors, preset_name).c_str(), time_gemv,
                          rows, cols, type, vectors)
            ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace
}  // namespace pmnet::ops

int main(int argc, char** argv) {
  pmnet::guard_against_broken_amx();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  pmnet::ops::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
