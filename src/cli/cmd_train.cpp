#include <ATen/Parallel.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/shared_data.h"
#include "base/standard_streams.h"
#include "base/suggest.h"
#include "cli/commands.h"
#include "cli/input_options.h"
#include "config/train_options.h"
#include "train/estimate.h"
#include "train/run.h"

namespace pmnet {

namespace {

constexpr int kNotFiniteExit = 17;

struct TrainArguments {
  RunRequest request;
  std::string run_file;
  std::vector<Assignment> flags;
  std::vector<std::string> assignments;  // --set
  bool print_config = false;
  bool dry_run = false;
};

// A file, or the name of a recipe: NAME.toml of recipes/train.
std::filesystem::path find_recipe(const std::string& name) {
  namespace fs = std::filesystem;
  if (fs::exists(name)) return name;
  const fs::path folder = find_shared(fs::path("recipes") / "train").value_or(fs::path("recipes") / "train");
  if (fs::exists(folder / (name + ".toml"))) return folder / (name + ".toml");
  std::vector<std::string> known;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    known.push_back(entry.path().stem().string());
  fail("there is neither a file nor a recipe '{}'{}", name, did_you_mean(name, known));
}

// Later ones win: defaults, the run that is resumed, the run file, flags, --set.
TrainConfig merge(const TrainArguments& arguments) {
  TrainConfig config;
  const std::filesystem::path saved = arguments.request.out / "run.toml";
  if (arguments.request.resume && std::filesystem::exists(saved)) read_run_file(config, saved);
  if (!arguments.run_file.empty()) read_run_file(config, find_recipe(arguments.run_file));
  for (const Assignment& flag : arguments.flags) set_option(config, flag);
  for (const std::string& assignment : arguments.assignments) set_option(config, parse_assignment(assignment));
  if (arguments.request.resume && !std::filesystem::exists(saved) && config.inputs.empty())
    fail("{}: there is no run to resume; check --out, or start a run with --preset and --data",
         arguments.request.out.string());
  return config;
}

void print_estimate(const RunEstimate& estimate) {
  fmt::print("parameters         {}\n", format_count(estimate.parameters));
  fmt::print("memory, estimated  {}, {} available\n", format_bytes(total(estimate.memory)),
             format_bytes(estimate.available_memory));
  for (const CostPart& part : estimate.memory) fmt::print("  {:<32} {}\n", part.name, format_bytes(part.amount));
  fmt::print("one step           {}, {}\n", format_duration(estimate.seconds_per_step),
             format_byte_rate(estimate.bytes_per_step / estimate.seconds_per_step));
  fmt::print("the whole run      {} steps, {}\n", format_count(estimate.steps),
             format_duration(estimate.seconds_per_step * static_cast<double>(estimate.steps)));
}

void report(const RunSummary& summary, const RunRequest& request) {
  using End = RunSummary::End;
  if (summary.end == End::kNotFinite)
    print_error(
        "pmnet: stopped at step {}: the loss or the gradient was not finite too often in a row; the weights are "
        "those before it. Lower optimizer.lr, or look at the data",
        summary.step);
  else if (summary.end == End::kStopped)
    fmt::print("stopped at step {}; continue with: pmnet train --out {} --resume\n", summary.step,
               request.out.string());
  else if (summary.end == End::kFinishedBefore)
    fmt::print("finished already at step {}; --steps N with a larger N continues the run\n",
               format_count(summary.step));
  else
    fmt::print("finished {} steps in {}\n", format_count(summary.step), format_duration(summary.seconds));
  if (summary.validation_bpb) fmt::print("held-out text      {:.4f} bits per byte\n", *summary.validation_bpb);
  if (!summary.checkpoint.empty()) fmt::print("model              {}\n", summary.checkpoint.string());
  fmt::print("curves and logs    {}\n", request.out.string());
}

void train(const TrainArguments& arguments) {
  const TrainConfig config = merge(arguments);
  if (arguments.print_config) {
    fmt::print("{}", to_toml(config, /*with_help=*/true));
    return;
  }
  try {
    const Launch launch = launch_from_environment();
    ProcessGroup group(launch, std::chrono::seconds(config.timeout_seconds), config.device == Device::kCuda);
    if (arguments.dry_run) {
      const RunEstimate estimate = estimate_run(config, arguments.request.force, group);
      if (group.is_rank0()) print_estimate(estimate);
      return;
    }
    const RunSummary summary = run_training(config, arguments.request, group);
    if (group.is_rank0()) report(summary, arguments.request);
    if (summary.end == RunSummary::End::kNotFinite) throw CommandFailed{kNotFiniteExit};
  } catch (const PeerLost& lost) {
    // Threads of the group may still wait for the rank that is gone; leaving in order would wait for them.
    print_error("pmnet: {}", lost.what());
    std::fflush(nullptr);
    std::_Exit(1);
  }
}

void add_flags(CLI::App& command, const std::shared_ptr<TrainArguments>& arguments) {
  const TrainConfig defaults;
  for (const TrainOption& option : train_options()) {
    if (option.flag.empty()) continue;
    const std::string key = option.key, flag = option.flag, value = value_text(defaults, option);
    CLI::Option* added = nullptr;
    if (option.is_switch()) {
      added = command.add_flag_callback(flag, [=] { arguments->flags.push_back({key, {"true"}, flag}); }, option.help);
    } else {
      const auto take = [=](std::vector<std::string> values) {
        if (key == "data.split_on") values.back() = unescape(values.back(), flag);
        arguments->flags.push_back({key, std::move(values), flag});
        return true;
      };
      const bool empty = value == "\"\"" || value == "[]";
      const std::string help = option.help_text() + (empty ? "" : fmt::format(" [{}]", value));
      added = command.add_option(flag, take, help)->type_name(option.is_list() ? "X..." : "X");
      added->expected(1, option.is_list() ? 1 << 20 : 1);
      added->multi_option_policy(option.is_list() ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
    }
    added->group(key.substr(0, key.find('.')));
  }
}

}  // namespace

void add_train_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train a model on text, or resume a run");
  const auto arguments = std::make_shared<TrainArguments>();
  command->add_option("--out", arguments->request.out, "Folder of the run")->type_name("DIR");
  command->add_flag("--resume", arguments->request.resume, "Resume the run in that folder, bit for bit");
  // torchrun reads --run as short for one of its options, hence the second name.
  command
      ->add_option("--run,--recipe", arguments->run_file, "Settings: a TOML file, or the name of one in recipes/train")
      ->type_name("FILE|NAME");
  command->add_option("--set", arguments->assignments, "Any setting, such as optimizer.beta2=0.99; may be repeated")
      ->type_name("KEY=VALUE")
      ->take_all();
  command->add_flag("--print-config", arguments->print_config, "Print all settings with their meaning, and exit");
  command->add_flag("--dry-run", arguments->dry_run,
                    "Run one step, discard it, print estimated memory and time, and exit");
  command->add_flag("--force", arguments->request.force, "Start even if the memory estimate exceeds what is available");
  add_flags(*command, arguments);
  command->footer(
      "On several processes: torchrun --no-python --nproc-per-node N pmnet train ... (--recipe FILE instead of --run)\n"
      "Exit codes: 0 done or stopped by a signal, 2 a mistake in the settings, 17 the loss was not finite too often.");
  const CLI::Option* threads = app.get_option("--threads");
  command->callback([arguments, threads] {
    if (threads->count() > 0)
      arguments->flags.push_back({"train.threads", {std::to_string(at::get_num_threads())}, "--threads"});
    train(*arguments);
  });
}

}  // namespace pmnet
