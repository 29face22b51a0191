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
#include "base/stop_signal.h"
#include "config/config_json.h"
#include "config/train_options.h"
#include "engine/generator.h"
#include "report/curves.h"
#include "train/batch_source.h"
#include "train/evaluator.h"
#include "train/run_checkpoint.h"
#include "train/run_folder.h"
#include "train/run_log.h"
#include "train/run_setup.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;

void say(const std::string& line) { fmt::print(stderr, "{}\n", line); }

class TrainingRun {
 public:
  TrainingRun(const TrainConfig& config, const RunRequest& request, ProcessGroup& group)
      : config_(config), request_(request), group_(group), stop_(group) {}

  RunSummary train() {
    open();
    while (trainer_->progress().step < config_.total_steps() && step()) {
    }
    finish();
    return summary_;
  }

 private:
  void open();
  void open_folder();
  void open_data();
  void open_model();
  void open_log();
  bool step();  // false: the run ends here
  void validate(const Batch& batch);
  void sample();
  void save();
  void finish();
  bool due(int64_t interval) const { return interval > 0 && trainer_->progress().step % interval == 0; }
  bool time_to_save();

  TrainConfig config_;
  RunRequest request_;
  ProcessGroup& group_;
  StopCheck stop_;
  std::optional<RunFolder> folder_;  // rank 0
  std::optional<RunCheckpoint> resumed_;
  RunData data_;
  LoadedModel loaded_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<BatchSource> source_;
  std::unique_ptr<Evaluator> evaluator_;  // null when nothing is held out
  std::unique_ptr<RunLog> log_;           // rank 0
  RunRecord record_;
  RunSummary summary_;
  int64_t saved_step_ = -1;
  double saved_at_ = steady_seconds(), started_ = steady_seconds();
};

void TrainingRun::open() {
  open_folder();
  open_data();
  open_model();
  source_ = std::make_unique<BatchSource>(data_.train, config_, framing_of(*loaded_.model), group_,
                                          trainer_->progress().step);
  if (data_.held_out)
    evaluator_ = std::make_unique<Evaluator>(data_.held_out, config_, framing_of(*loaded_.model), group_);
  group_.agree("settings", text_hash(to_toml(config_, /*with_help=*/false)));
  group_.agree("data", data_.fingerprint());
  group_.agree("step and weights",
               fmt::format("{} {}", trainer_->progress().step, group_.world() > 1 ? model_hash(*loaded_.model) : ""));
  open_log();
  saved_at_ = started_ = steady_seconds();
}

void TrainingRun::open_folder() {
  const fs::path checkpoints = request_.out / "ckpt";
  std::string found;
  group_.lead([&] {
    folder_.emplace(request_.out, request_.resume);
    clean_checkpoints(checkpoints);
    if (const auto newest = newest_checkpoint(checkpoints, [](const std::string& text) { say("warning: " + text); }))
      found = std::to_string(newest->step);
  });
  found = group_.exchange(found).front();
  if (found.empty()) return;
  group_.together([&] {
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
  group_.together([&] {
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
  if (!group_.leads()) return;
  for (const PackResult& packed : data_.packed)
    for (const auto& [reason, skip] : packed.skips)
      say(fmt::format("skipped {} x {}, first: {}", format_count(skip.count), reason, skip.first));
}

void TrainingRun::open_model() {
  group_.together([&] {
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
    trainer_ = std::make_unique<Trainer>(*loaded_.model, config_, group_);
    if (!resumed_) return;
    trainer_->progress() = resumed_->progress;
    load_optimizer(resumed_->folder, trainer_->optimizer());
    if (const auto carried = load_carried(resumed_->folder, *loaded_.model)) trainer_->set_carried(*carried);
    saved_step_ = resumed_->step;
    summary_.checkpoint = resumed_->folder;
  });
  if (resumed_) record_ = resumed_->record;
  summary_.validation_bpb = record_.validation_bpb;
  record_.settings = to_toml(config_, /*with_help=*/false);
  record_.data_fingerprint = data_.fingerprint();
  record_.world = group_.world();
  record_.threads = at::get_num_threads();
}

void TrainingRun::open_log() {
  double gemm_rate = 0;
  if (config_.log_limit) {
    const Tensor rate = at::full({1}, measure_gemm_rate(), at::kDouble);
    group_.sum(rate);
    gemm_rate = rate.item<double>();
  }
  group_.lead([&] {
    write_file_atomically(folder_->settings(), record_.settings);
    log_ =
        std::make_unique<RunLog>(request_.out, config_,
                                 RunLog::Start{.step = trainer_->progress().step,
                                               .resumed = request_.resume,
                                               .flop_per_byte = training_flop_per_byte(loaded_.config, config_.context),
                                               .gemm_rate = gemm_rate});
    for (const std::string& line : chosen_options(config_)) log_->print("  " + line);
    log_->print(fmt::format("{} parameters; {} documents, {} to train on{}; {} rank(s) x {} thread(s){}",
                            format_count(parameter_count(loaded_.config)), format_count(data_.train->documents()),
                            format_bytes(data_.train->bytes()),
                            data_.held_out ? ", " + format_bytes(data_.held_out->bytes()) + " held out" : "",
                            group_.world(), record_.threads,
                            gemm_rate > 0 ? fmt::format("; GEMM limit {:.0f} GFLOP/s", gemm_rate / 1e9) : ""));
    for (const std::string& warning : loaded_.warnings) log_->warn(warning);
    if (!resumed_) return;
    log_->print(fmt::format("resumed at step {}", resumed_->step));
    if (resumed_->record.world != record_.world || resumed_->record.threads != record_.threads)
      log_->warn(fmt::format("saved with {} rank(s) x {} thread(s): the losses will agree, but not bit by bit",
                             resumed_->record.world, resumed_->record.threads));
  });
}

bool TrainingRun::step() {
  const double asked = steady_seconds();
  const std::optional<Batch> batch = source_->next(stop_);
  const double waited = steady_seconds() - asked;
  const StepReport report = trainer_->step(batch.value_or(Batch{}), stop_);
  if (report.outcome == StepOutcome::kStopped) return false;

  const TrainerProgress& progress = trainer_->progress();
  summary_.train_bpb = report.loss / std::numbers::ln2;
  if (log_) log_->step(report, progress, waited);
  if (progress.not_finite_in_a_row >= config_.max_not_finite) {
    summary_.end = RunSummary::End::kNotFinite;
    return false;
  }
  const bool last = progress.step == config_.total_steps();
  if (due(config_.eval_every) || last) validate(*batch);
  if (due(config_.sample_every) || (last && config_.sample_every > 0)) sample();
  const bool by_time = time_to_save();
  if (due(config_.checkpoint_every) || last || by_time) save();
  if (last) summary_.end = RunSummary::End::kFinished;
  return !last;
}

void TrainingRun::validate(const Batch& batch) {
  Metrics values;
  if (evaluator_) {
    const std::optional<double> bpb = evaluator_->bits_per_byte(*loaded_.model, stop_);
    if (!bpb) return;
    summary_.validation_bpb = record_.validation_bpb = bpb;
    values.emplace_back("val/bpb", *bpb);
    if (log_)
      log_->print(fmt::format("step {}: {:.4f} bits per byte on held-out text", trainer_->progress().step, *bpb));
  }
  if (!log_) return;
  for (auto& value : memory_metrics(*loaded_.model, batch, memory_switches(config_))) values.push_back(value);
  if (!values.empty()) log_->metrics(trainer_->progress().step, values);
}

void TrainingRun::sample() {
  group_.lead([&] {
    const std::shared_ptr<const LanguageModel> model(loaded_.model.get(), [](const LanguageModel*) {});
    Session session(model, "", 1, memory_switches(config_));
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
    log_->sample(trainer_->progress().step, config_.sample_prompt, text);
  });
}

bool TrainingRun::time_to_save() {
  if (config_.checkpoint_minutes <= 0) return false;
  return group_.any(group_.leads() && steady_seconds() - saved_at_ > 60 * config_.checkpoint_minutes);
}

void TrainingRun::save() {
  const TrainerProgress& progress = trainer_->progress();
  if (saved_step_ == progress.step) return;
  const std::optional<State> carried = trainer_->gather_carried();
  if (group_.world() > 1) group_.agree("weights", model_hash(*loaded_.model));
  group_.lead([&] {
    RunRecord record = record_;
    if (record.validation_bpb && (!record.best_bpb || *record.validation_bpb < *record.best_bpb)) {
      record.best_bpb = record.validation_bpb;
      record.best_step = progress.step;
    }
    const fs::path folder = checkpoint_folder(folder_->checkpoints(), progress.step);
    try {
      save_run_checkpoint(folder, *loaded_.model, loaded_.config, trainer_->optimizer(), carried, progress, record);
      record_ = record;
      saved_step_ = progress.step;
      summary_.checkpoint = folder;
      prune_checkpoints(folder_->checkpoints(), config_.keep, config_.keep_best ? record_.best_step : -1);
    } catch (const UserError& error) {
      log_->warn(
          fmt::format("the checkpoint of step {} was not saved, training goes on: {}", progress.step, error.what()));
    }
    saved_at_ = steady_seconds();
  });
  saved_step_ = std::stoll(group_.exchange(std::to_string(saved_step_)).front());
}

void TrainingRun::finish() {
  const int64_t step = trainer_->progress().step;
  summary_.step = step;
  summary_.seconds = steady_seconds() - started_;
  if (step > 0) save();
  if (log_) summary_.bytes_per_second = log_->bytes_per_second();
  group_.lead([&] {
    if (step > 0 && saved_step_ != step)
      fail("the state of step {} could not be saved; the last whole checkpoint is {}", step,
           summary_.checkpoint.empty() ? "none" : summary_.checkpoint.string());
    log_->finish();
    if (step == 0) return;
    try {
      const std::vector<LineChart> charts = curves_of({read_run(request_.out.string())});
      for (const char* name : {"curves.png", "curves.svg"}) write_charts(charts, (request_.out / name).string());
    } catch (const UserError& error) {
      log_->warn(error.what());
    }
  });
}

}  // namespace

RunSummary run_training(const TrainConfig& config, const RunRequest& request, ProcessGroup& group) {
  const StopSignals signals;
  group.together([&] {
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
