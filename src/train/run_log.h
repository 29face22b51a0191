// What a person sees of a run: the progress line, metrics.jsonl, TensorBoard events, samples.
#pragma once
#include <filesystem>
#include <string>

#include "base/error.h"
#include "config/train_config.h"
#include "report/metrics_log.h"
#include "report/progress.h"
#include "report/tensorboard.h"
#include "train/trainer.h"

namespace pmnet {

class RunLog {
 public:
  struct Start {
    int64_t step = 0;  // completed before; points after it are dropped
    bool resumed = false;
    double flop_per_byte = 0;
    double gemm_rate = 0;  // of all ranks together; 0: not measured
  };
  RunLog(const std::filesystem::path& folder, const TrainConfig& config, const Start& start);

  void step(const StepReport& report, const TrainerProgress& progress, double waited_for_data);
  void metrics(int64_t step, const Metrics& metrics);
  void sample(int64_t step, const std::string& prompt, const std::string& text);
  void print(const std::string& line) { line_.print(line); }
  void warn(const std::string& sentence) { line_.print("warning: " + escape_control(sentence)); }
  void finish() { line_.finish(); }

  double bytes_per_second() const { return bytes_.rate(); }

 private:
  std::string progress_text(const StepReport& report, const TrainerProgress& progress) const;
  double share_of_limit() const;  // negative: unknown

  std::filesystem::path folder_;
  TrainConfig config_;
  Start start_;
  ProgressLine line_;
  MetricsLog metrics_;
  EventWriter events_;
  RateMeter bytes_;  // positions of this session, of all that are left of the run
  double started_;
  double waited_ = 0;
  int64_t positions_ = 0;  // of this session
};

}  // namespace pmnet
