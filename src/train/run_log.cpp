#include "train/run_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <numbers>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/machine.h"

namespace pmnet {

RunLog::RunLog(const std::filesystem::path& folder, const TrainConfig& config, const Start& start)
    : folder_(folder),
      config_(config),
      start_(start),
      metrics_((folder / "metrics.jsonl").string(), start.resumed ? start.step : -1,
               [this](const std::string& sentence) { warn(sentence); }),
      events_(folder.string(), start.resumed ? start.step + 1 : 0,
              [this](const std::string& sentence) { warn(sentence); }),
      bytes_(static_cast<double>(config.positions_before(config.total_steps()) - config.positions_before(start.step))),
      started_(steady_seconds()) {}

double RunLog::share_of_limit() const {
  return start_.gemm_rate > 0 ? bytes_.rate() * start_.flop_per_byte / start_.gemm_rate : -1;
}

void RunLog::step(const StepReport& report, const TrainerProgress& progress, double waited_for_data) {
  positions_ += report.positions;
  waited_ += waited_for_data;
  bytes_.set_done(static_cast<double>(positions_));
  line_.update([&] { return progress_text(report, progress); });
  if (report.outcome != StepOutcome::kUpdated)
    warn(fmt::format("step {}: {}, the update was skipped (loss {}, gradient norm {})", progress.step,
                     report.outcome == StepOutcome::kSpike ? "a spike" : "not finite", report.loss,
                     report.gradient_norm));
  if (progress.step % config_.log_every != 0 && progress.step != config_.total_steps()) return;
  const double elapsed = std::max(1e-9, steady_seconds() - started_);
  Metrics values{{"train/lr", report.learning_rate},
                 {"train/bytes", static_cast<double>(progress.bytes)},
                 {"train/skipped", static_cast<double>(progress.skipped)},
                 {"perf/bytes_per_s", bytes_.rate()},
                 {"perf/data_wait_percent", 100 * waited_ / elapsed},
                 {"perf/memory", static_cast<double>(resident_bytes())}};
  if (report.scored > 0)  // all of a batch may be prompt: then there is no loss
    values.insert(values.begin(), {{"train/loss", report.loss},
                                   {"train/bpb", report.loss / std::numbers::ln2},
                                   {"train/grad_norm", report.gradient_norm}});
  if (share_of_limit() >= 0) values.emplace_back("perf/percent_of_limit", 100 * share_of_limit());
  metrics(progress.step, values);
}

std::string RunLog::progress_text(const StepReport& report, const TrainerProgress& progress) const {
  const std::string loss =
      report.scored > 0 ? fmt::format("{:.3f} bpb  |g| {:.2f}", report.loss / std::numbers::ln2, report.gradient_norm)
                        : "nothing scored";
  std::string text =
      fmt::format("step {}/{}  {}  {}  lr {:.1e}  {}", format_count(progress.step), format_count(config_.total_steps()),
                  format_bytes(progress.bytes), loss, report.learning_rate, format_byte_rate(bytes_.rate()));
  if (share_of_limit() >= 0) text += fmt::format("  {:.0f}% of GEMM", 100 * share_of_limit());
  return text + fmt::format("  {}  {} left", format_bytes(resident_bytes()), format_duration(bytes_.seconds_left()));
}

void RunLog::metrics(int64_t step, const Metrics& metrics) {
  metrics_.write(step, metrics);
  events_.add_scalars(step, metrics);
}

void RunLog::sample(int64_t step, const std::string& prompt, const std::string& text) {
  line_.print(fmt::format("sample at step {}: {}", step, printable(prompt + text)));
  events_.add_text(step, "sample", printable(prompt + text));
  try {  // a full disk does not end training
    std::filesystem::create_directories(folder_ / "samples");
    const std::filesystem::path file = folder_ / "samples" / fmt::format("step-{:08}.txt", step);
    std::filesystem::remove(file);
    FileWriter writer(file);
    writer.write(prompt + text);
    writer.finish();
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

}  // namespace pmnet
