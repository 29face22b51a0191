#include "train/validation.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "eval/routing.h"
#include "eval/scorer.h"
#include "train/batch_tensors.h"
#include "train/trainer.h"

namespace pmnet {

namespace {

constexpr int64_t kTracedBytes = 2048;

BatchOptions validation_batches(const TrainConfig& config, const Framing& framing, const ProcessGroup& group) {
  BatchOptions options;
  options.mode = config.samples;
  options.rows = config.rows_per_pass(group.world()) * group.world();
  options.context = config.context;
  options.seed = static_cast<uint64_t>(config.seed);
  options.framing = framing;
  options.single_epoch = true;
  options.rank = group.rank();
  options.world = group.world();
  return options;
}

}  // namespace

Validation::Validation(std::shared_ptr<const DocumentSet> held_out, const TrainConfig& config, const Framing& framing,
                       ProcessGroup& group)
    : config_(config),
      group_(group),
      batcher_(std::move(held_out), validation_batches(config, framing, group)),
      windows_(std::min<int64_t>(static_cast<int64_t>(batcher_.samples_per_epoch()),
                                 std::max<int64_t>(1, config.eval_bytes / config.context))) {}

std::optional<double> Validation::bits_per_byte(const LanguageModel& model, StopCheck& stop) {
  const auto engine = make_engine(model, memory_switches(config_));
  const Tensor sums = at::zeros({3}, at::kDouble);  // loss, bytes, ranks that stop
  try {
    for (int64_t step = 0; step * batcher_.options().rows < windows_; ++step) {
      Batch batch = batcher_.make(step);
      for (int64_t row = 0; row < batch.rows; ++row)
        if (batch.sample_ids[row] >= windows_)
          std::fill_n(batch.loss_mask.begin() + row * batch.context, batch.context, 0);
      sums[0] += loss_of(engine, batch, stop);
      sums[1] += static_cast<double>(scored_bytes(batch));
    }
  } catch (const StopRequested&) {
    sums[2] = 1;
  }
  group_.sum(sums);
  if (sums[2].item<double>() > 0) return std::nullopt;
  return sums[0].item<double>() / std::max(1.0, sums[1].item<double>()) / std::numbers::ln2;
}

double Validation::loss_of(const std::shared_ptr<const Engine>& engine, const Batch& batch, StopCheck& stop) const {
  const BatchPart part = part_of(batch, 0, batch.rows, at::kCPU);
  Scorer scorer(engine, batch.rows);
  const ScoreOptions options{
      .chunk = config_.chunk, .lengths = part.lengths, .before_pass = [&] { stop.throw_if_requested(); }};
  return scorer.losses(part.sequence.ids, part.sequence.targets, options).sum(at::kDouble).item<double>();
}

Metrics memory_metrics(const LanguageModel& model, const Batch& batch, const MemorySwitches& switches) {
  const BatchPart part = part_of(batch, 0, 1, at::kCPU);
  const int64_t T = std::min({kTracedBytes, batch.context, std::max<int64_t>(1, batch.lengths.at(0))});
  Trace trace;
  make_engine(model, switches)->hidden(part.sequence.ids.narrow(1, 0, T), nullptr, {.trace = &trace});
  Metrics metrics;
  RoutingStatistics routing;
  routing.add(trace);
  for (size_t level = 0; level < routing.levels().size(); ++level) {
    const std::string name = fmt::format("memory/level_{}", level);
    metrics.emplace_back(name + "/entropy", routing.levels()[level].entropy());
    metrics.emplace_back(name + "/largest_share", routing.levels()[level].largest_share());
    const ops::Phases& path = trace.path.at(level);
    if (!path.turns) continue;
    const double turn = 2 * std::numbers::pi / (path.turns->scalar_type() == at::kInt ? 0x1p32 : 0x1p64);
    metrics.emplace_back(name + "/mean_abs_phase", path.turns->to(at::kDouble).abs().mean().item<double>() * turn);
  }
  return metrics;
}

}  // namespace pmnet
