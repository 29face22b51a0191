#include "train/run.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numbers>

#include "base/atomic_folder.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/standard_streams.h"
#include "base/stop_signal.h"
#include "config/config_json.h"
#include "config/train_options.h"
#include "engine/generator.h"
#include "report/curves.h"
#include "train/batch_source.h"
#include "train/loop.h"
#include "train/run_folder.h"
#include "train/run_log.h"
#include "train/run_setup.h"
#include "train/validation.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;

void say(const std::string& line) { print_error("{}", line); }

class TrainingRun : public LoopHooks, public Evaluator {
 public:
  TrainingRun(const TrainConfig& config, const RunRequest& request, ProcessGroup& group)
      : config_(config), request_(request), group_(group), stop_(group) {}

  RunSummary train() {
    open();
    const bool finished_before = loop_->progress().step >= config_.total_steps() && !loop_->record().evaluation_pending;
    BatchSource batches(data_.train, config_, framing_of(*loaded_.model), group_);
    summary_.end = finished_before ? RunSummary::End::kFinishedBefore : end_of(loop_->run(batches, *this));
    finish();
    return summary_;
  }

 private:
  void open();
  void open_folder();
  void open_data();
  void open_model();
  void open_log();
  void finish();
  void draw_curves();

  static RunSummary::End end_of(LoopEnd end) {
    return end == LoopEnd::kFinished  ? RunSummary::End::kFinished
           : end == LoopEnd::kStopped ? RunSummary::End::kStopped
                                      : RunSummary::End::kNotFinite;
  }

  void on_step(const Batch& batch, const StepReport& report, double waited) override;
  void on_warning(const std::string& sentence) override { log_->warn(sentence); }
  std::optional<ValidationResult> evaluate(const LanguageModel& model, int64_t step, StopCheck& stop) override;
  void sample();

  TrainConfig config_;
  RunRequest request_;
  ProcessGroup& group_;
  StopCheck stop_;
  std::optional<RunFolder> folder_;  // rank 0
  std::optional<RunCheckpoint> resumed_;
  RunData data_;
  LoadedModel loaded_;
  std::optional<TrainingLoop> loop_;
  std::unique_ptr<Validation> validation_;  // null when nothing is held out
  std::unique_ptr<RunLog> log_;             // rank 0
  std::optional<Batch> last_batch_;         // of this session
  RunSummary summary_;
  double started_ = steady_seconds();
};

void TrainingRun::open() {
  open_folder();
  open_data();
  open_model();
  if (data_.held_out)
    validation_ = std::make_unique<Validation>(data_.held_out, config_, framing_of(*loaded_.model), group_);
  group_.require_equal("settings", text_hash(to_toml(config_, /*with_help=*/false)));
  group_.require_equal("data", data_.fingerprint());
  group_.require_equal("step and weights", fmt::format("{} {}", loop_->progress().step,
                                                       group_.world() > 1 ? model_hash(*loaded_.model) : ""));
  open_log();
  started_ = steady_seconds();
}

void TrainingRun::open_folder() {
  const fs::path checkpoints = request_.out / "ckpt";
  std::string found;
  group_.run_on_rank0([&] {
    folder_.emplace(request_.out, request_.resume);
    clean_checkpoints(checkpoints);
    if (const auto newest = newest_checkpoint(checkpoints, [](const std::string& text) { say("warning: " + text); })) {
      set_aside_newer(checkpoints, newest->step);
      found = std::to_string(newest->step);
    } else if (request_.resume) {
      say("no checkpoint yet: training starts from the beginning");
    }
  });
  found = group_.all_gather_text(found).front();
  if (found.empty()) return;
  group_.run_everywhere([&] {
    resumed_ = open_run_checkpoint(checkpoint_folder(checkpoints, std::stoll(found)));
    TrainConfig saved;
    read_run_text(saved, resumed_->record.settings, (resumed_->folder / "trainer.json").string());
    if (const auto differences = fixed_differences(saved, config_); !differences.empty())
      fail("{} belongs to another run: {}; use its settings, or choose another folder with --out",
           request_.out.string(), fmt::join(differences, "; "));
  });
}

void TrainingRun::open_data() {
  bool stopped = false;
  group_.run_everywhere([&] {
    try {
      data_ = open_run_data(config_, [&] { stop_.throw_if_requested(); });
    } catch (const StopRequested&) {
      stopped = true;
      return;
    }
    if (resumed_ && resumed_->record.data_fingerprint != data_.fingerprint())
      fail(
          "the data is not what the run in {} was trained on: its fingerprint was {} and is now {}; restore it, or "
          "start another run from the weights with --init {}",
          request_.out.string(), resumed_->record.data_fingerprint, data_.fingerprint(), resumed_->folder.string());
  });
  if (group_.any(stopped)) throw StopRequested{};
  if (!group_.is_rank0()) return;
  for (const PackResult& packed : data_.packed)
    for (const auto& [reason, skip] : packed.skips)
      say(fmt::format("skipped {} x {}, first: {}", format_count(skip.count), reason, skip.first));
}

void TrainingRun::open_model() {
  group_.run_everywhere([&] {
    if (resumed_) {
      const ModelConfig stored = read_config(resumed_->folder / "config.json").config;
      if (config_.init.empty() && to_json(model_config_of(config_)) != to_json(stored))
        fail("the model of {} has another shape than the settings ask for; compare its config.json with {}",
             resumed_->folder.string(), config_.preset.empty() ? config_.model_config : config_.preset);
      if (!request_.force) check_memory(config_, stored, group_.launch());
      loaded_ = load_model(resumed_->folder);
      move_to_device(*loaded_.model, config_, group_);
    } else {
      if (!request_.force) check_memory(config_, model_config_of(config_), group_.launch());
      loaded_ = make_run_model(config_, group_);
    }
    loop_.emplace(TrainingLoop::Setup{.model = *loaded_.model,
                                      .model_config = loaded_.config,
                                      .config = config_,
                                      .checkpoints = fs::absolute(request_.out) / "ckpt",
                                      .group = group_,
                                      .stop = stop_,
                                      .hooks = *this});
    if (resumed_) loop_->resume(*resumed_);
  });
  RunRecord& record = loop_->record();
  record.settings = to_toml(config_, /*with_help=*/false);
  record.data_fingerprint = data_.fingerprint();
  record.world = group_.world();
  record.threads = at::get_num_threads();
}

void TrainingRun::open_log() {
  double gemm_rate = 0;
  if (config_.log_limit) {
    const Tensor rate = at::full({1}, measure_gemm_rate(), at::kDouble);
    group_.sum(rate);
    gemm_rate = rate.item<double>();
  }
  group_.run_on_rank0([&] {
    write_file_atomically(folder_->settings(), loop_->record().settings);
    log_ =
        std::make_unique<RunLog>(request_.out, config_,
                                 RunLog::Start{.step = loop_->progress().step,
                                               .resumed = request_.resume,
                                               .flop_per_byte = training_flop_per_byte(loaded_.config, config_.context),
                                               .gemm_rate = gemm_rate});
    for (const std::string& line : chosen_options(config_)) log_->print("  " + line);
    log_->print(fmt::format("{} parameters; {} documents, {} to train on{}; {} rank(s) x {} thread(s){}",
                            format_count(parameter_count(loaded_.config)), format_count(data_.train->documents()),
                            format_bytes(data_.train->bytes()),
                            data_.held_out ? ", " + format_bytes(data_.held_out->bytes()) + " held out" : "",
                            group_.world(), loop_->record().threads,
                            gemm_rate > 0 ? fmt::format("; GEMM limit {:.0f} GFLOP/s", gemm_rate / 1e9) : ""));
    for (const std::string& warning : loaded_.warnings) log_->warn(warning);
    if (!resumed_) return;
    log_->print(fmt::format("resumed at step {}", resumed_->step));
    if (resumed_->record.world != group_.world() || resumed_->record.threads != loop_->record().threads)
      log_->warn(fmt::format("saved with {} rank(s) x {} thread(s): the losses will agree, but not bit by bit",
                             resumed_->record.world, resumed_->record.threads));
  });
}

void TrainingRun::on_step(const Batch& batch, const StepReport& report, double waited) {
  summary_.train_bpb = report.loss / std::numbers::ln2;
  if (log_) log_->step(report, loop_->progress(), waited);
  last_batch_ = batch;
  const bool last = loop_->progress().step == config_.total_steps();
  if (loop_->due(config_.sample_every) || (last && config_.sample_every > 0)) sample();
  if (request_.on_step && !request_.on_step(report, loop_->progress())) stop_.request();
}

std::optional<ValidationResult> TrainingRun::evaluate(const LanguageModel& model, int64_t step, StopCheck& stop) {
  ValidationResult evaluation;
  Metrics values;
  if (validation_) {
    evaluation.bits_per_byte = validation_->bits_per_byte(model, stop);
    if (!evaluation.bits_per_byte) return std::nullopt;
    values.emplace_back("val/bpb", *evaluation.bits_per_byte);
    if (log_)
      log_->print(fmt::format("step {}: {:.4f} bits per byte on held-out text", step, *evaluation.bits_per_byte));
  }
  if (!log_) return evaluation;
  if (last_batch_)
    for (auto& value : memory_metrics(model, *last_batch_, memory_switches(config_))) values.push_back(value);
  if (!values.empty()) log_->metrics(step, values);
  return evaluation;
}

void TrainingRun::sample() {
  group_.run_on_rank0([&] {
    Session session(make_engine(*loaded_.model, memory_switches(config_)));
    Generator generator(session);
    generator.read(config_.sample_prompt);
    GenerateSettings settings;
    settings.max_bytes = config_.sample_bytes;
    settings.sampling.temperature = config_.sample_temperature;
    settings.sampling.seed = static_cast<uint64_t>(config_.seed);
    std::string text;
    generator.generate(settings, [&](std::string_view bytes) {
      text += bytes;
      return !stop_.requested();
    });
    log_->sample(loop_->progress().step, config_.sample_prompt, text);
  });
}

void TrainingRun::finish() {
  summary_.step = loop_->progress().step;
  summary_.seconds = steady_seconds() - started_;
  summary_.validation_bpb = loop_->record().validation_bpb;
  loop_->save();
  summary_.checkpoint = loop_->last_checkpoint();
  group_.run_on_rank0([&] {
    summary_.bytes_per_second = log_->bytes_per_second();
    loop_->require_saved();
    log_->finish();
    if (summary_.step > 0) draw_curves();
  });
}

void TrainingRun::draw_curves() {
  try {
    const std::vector<LineChart> charts = curves_of({read_run(request_.out.string())});
    for (const char* name : {"curves.png", "curves.svg"}) write_charts(charts, (request_.out / name).string());
  } catch (const UserError& error) {
    log_->warn(error.what());
  }
}

}  // namespace

RunSummary run_training(const TrainConfig& config, const RunRequest& request, ProcessGroup& group) {
  const StopSignals signals("stopping after this step; press again to exit at once");
  group.run_everywhere([&] {
    if (request.out.empty()) fail("--out is missing; name a folder for the run");
    if (const auto problems = config.problems(group.world()); !problems.empty()) fail("{}", fmt::join(problems, "; "));
  });
  choose_threads(config, group.launch());
  try {
    return TrainingRun(config, request, group).train();
  } catch (const StopRequested&) {
    return {};  // before the first step: nothing to save
  }
}

}  // namespace pmnet
