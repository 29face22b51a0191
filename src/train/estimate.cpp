#include "train/estimate.h"

#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/stop_signal.h"
#include "train/batch_source.h"
#include "train/run_setup.h"
#include "train/trainer.h"

namespace pmnet {

RunEstimate estimate_run(const TrainConfig& config, bool force, ProcessGroup& group) {
  constexpr double kWorthRepeating = 10;  // seconds; the first step also pays for warming up
  const StopSignals signals;
  group.run_everywhere([&] {
    if (const auto problems = config.problems(group.world()); !problems.empty()) fail("{}", fmt::join(problems, "; "));
  });
  choose_threads(config, group.launch());
  RunEstimate estimate;
  LoadedModel loaded;
  RunData data;
  StopCheck stop(group);
  try {
    group.run_everywhere([&] {
      const ModelConfig model = model_config_of(config);
      estimate.parameters = parameter_count(model);
      estimate.memory = training_memory(config, model, group.launch());
      estimate.available_memory = static_cast<double>(query_machine().available_bytes);
      estimate.steps = config.total_steps();
      estimate.bytes_per_step = static_cast<double>(config.batch * config.context);
      if (!force) check_memory(config, model, group.launch());
      data = open_run_data(config, [&] { stop.throw_if_requested(); });
      loaded = make_run_model(config, group);
    });
    Trainer trainer(*loaded.model, config, group);
    BatchSource source(data.train, config, framing_of(*loaded.model), group);
    for (int attempt = 0; attempt < 2; ++attempt) {
      const std::optional<Batch> batch = source.next(attempt, stop);
      const double start = steady_seconds();
      if (trainer.step(batch.value_or(Batch{}), stop).outcome == StepOutcome::kStopped) throw StopRequested{};
      estimate.seconds_per_step = steady_seconds() - start;
      if (group.any(estimate.seconds_per_step > kWorthRepeating)) break;
    }
  } catch (const StopRequested&) {
    fail("stopped before a step could be timed");
  }
  return estimate;
}

}  // namespace pmnet
