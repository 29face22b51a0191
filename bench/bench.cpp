#include "bench/bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "bench/rivals.h"
#include "config/costs.h"

namespace pmnet {

namespace {

constexpr int64_t kMaxContext = int64_t{1} << 24;

void check(const BenchPlan& plan) {
  config_of(plan.base);  // an unknown preset is reported before anything is measured
  for (const int64_t context : plan.contexts)
    if (context < 1 || context > kMaxContext)
      fail("--context is {}; expected a number of bytes from 1 to {}", context, kMaxContext);
  if (plan.base.chunk < 0) fail("--chunk is {}; expected a number of bytes, or 0 for one pass", plan.base.chunk);
  if (!(plan.base.seconds >= 0)) fail("--seconds is {}; expected 0 or more", plan.base.seconds);
  if (plan.base.iterations < 1) fail("--iterations is {}; expected 1 or more", plan.base.iterations);
}

// Every combination of measurement, context, batch and, for decoding, weights.
std::vector<BenchCase> cases_of(const BenchPlan& plan) {
  std::vector<BenchCase> cases;
  for (const std::string& what : plan.what)
    for (const int64_t context : plan.contexts)
      for (const int64_t batch : plan.batches)
        for (const std::string& weights : what == "decode" ? plan.weights : std::vector<std::string>{"float32"}) {
          BenchCase c = plan.base;
          c.what = what;
          c.context = context;
          c.batch = batch;
          c.weights = weights;
          cases.push_back(c);
        }
  return cases;
}

// The rates of the machine are measured in every round, so that they belong to the same minutes as the rest.
BenchCandidate machine_candidate(const BenchPlan& plan) {
  BenchCase c = plan.base;
  c.what = "limits";
  c.context = plan.contexts.front();
  c.batch = plan.batches.front();
  c.weights = plan.weights.front();
  return {"the machine", command_for(c, plan.threads), c};
}

// PMNet, the same through the reference operations, and the baselines.
void add_ours(std::vector<BenchCandidate>& candidates, const BenchPlan& plan, BenchCase c) {
  const std::string suffix = c.what == "decode" ? " " + c.weights : "";
  const auto wanted = [&](const std::string& name) { return std::ranges::find(plan.skip, name) == plan.skip.end(); };
  const auto add = [&](const std::string& label) { candidates.push_back({label, command_for(c, plan.threads), c}); };
  add(fmt::format("PMNet {}{}", c.preset, suffix));
  if (wanted("composite")) {
    c.path = "reference";
    add(fmt::format("PMNet {}{}, composite path", c.preset, suffix));
    c.path = "fast";
  }
  for (const Architecture arch : {Architecture::kTransformer, Architecture::kMamba}) {
    c.arch = arch;
    if (wanted(enum_name(arch))) add(fmt::format("{} of {}{}", enum_name(arch), c.preset, suffix));
  }
}

BenchResult machine_of(const Measured& measured) {
  if (!measured.error.empty()) fail("measuring the machine failed: {}", measured.error);
  BenchResult machine;
  machine.cube_flops = measured.median(&BenchResult::cube_flops);
  machine.shape_flops = measured.median(&BenchResult::shape_flops);
  machine.gemm_flops = std::max(machine.cube_flops, machine.shape_flops);
  machine.read_bytes_per_second = measured.median(&BenchResult::read_bytes_per_second);
  return machine;
}

BenchRow row_of(const Measured& measured, const BenchPlan& plan, const BenchResult& machine) {
  BenchRow row{.label = measured.candidate.label,
               .what = "rival",
               .context = plan.contexts.front(),
               .batch = plan.batches.front(),
               .rate = measured.rate(),
               .peak_bytes = measured.peak_bytes(),
               .error = measured.error};
  if (const std::optional<BenchCase>& c = measured.candidate.bench_case) {
    row.what = c->what;
    row.context = c->context;
    row.batch = c->batch;
    // Bandwidth fluctuates within seconds, so decoding is compared with what its own process read in between.
    row.share =
        measured.share([&](const BenchResult& round) { return limit_of(*c, c->what == "decode" ? round : machine); });
  }
  return row;
}

}  // namespace

double limit_of(const BenchCase& c, const BenchResult& machine) {
  const ModelConfig config = config_of(c);
  if (c.what == "decode")  // one step reads the weights once, whatever the batch
    return machine.read_bytes_per_second / weight_bytes(config, c.weights) * static_cast<double>(c.batch);
  const double training = training_flop_per_byte(config, c.context);
  return machine.gemm_flops / (c.what == "train" ? training : training / 3);
}

std::vector<BenchCandidate> candidates_of(const BenchPlan& plan) {
  check(plan);
  std::vector<BenchCandidate> candidates = {machine_candidate(plan)};
  for (const BenchCase& c : cases_of(plan)) add_ours(candidates, plan, c);
  for (const std::string& text : plan.against) candidates.push_back(parse_rival(text));
  if (plan.peers)
    for (const BenchCandidate& rival : hugging_face_rivals(plan)) candidates.push_back(rival);
  return candidates;
}

BenchReport run_bench(const BenchPlan& plan, const std::function<void(int round, const BenchCandidate&)>& before_each) {
  const std::vector<Measured> measured = run_interleaved(candidates_of(plan), plan.rounds, before_each);
  BenchReport report{.threads = plan.threads, .machine = {}, .rows = {}};
  const auto is_machine = [](const Measured& m) {
    return m.candidate.bench_case && m.candidate.bench_case->what == "limits";
  };
  report.machine = machine_of(*std::ranges::find_if(measured, is_machine));
  for (const Measured& m : measured)
    if (!is_machine(m)) report.rows.push_back(row_of(m, plan, report.machine));
  return report;
}

}  // namespace pmnet
