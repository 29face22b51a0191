#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "cli/commands.h"
#include "config/assignment.h"
#include "experiments/framework/report_files.h"
#include "experiments/framework/run_experiment.h"

namespace pmnet {

namespace {

constexpr const char* kAll = "all";

struct ExperimentArguments {
  std::string name, recipe = "cpu", out, reading;
  std::vector<std::string> text, models, assignments;
  std::string seeds;
  bool dry_run = false, print_settings = false;
};

// Flags are settings under other names; `all` gives each experiment those that it has.
std::vector<Assignment> flag_settings(const ExperimentArguments& arguments) {
  std::vector<Assignment> settings;
  if (!arguments.seeds.empty()) settings.push_back({"seeds", {arguments.seeds}, "--seeds"});
  if (!arguments.text.empty()) settings.push_back({"text", arguments.text, "--text"});
  if (!arguments.models.empty()) settings.push_back({"models", arguments.models, "--model"});
  if (!arguments.reading.empty()) settings.push_back({"reading", {arguments.reading}, "--reading"});
  for (const std::string& assignment : arguments.assignments) settings.push_back(parse_assignment(assignment));
  return settings;
}

struct Planned {
  const ExperimentEntry* entry;
  ExperimentRequest request;
};

std::vector<Planned> plan(const ExperimentArguments& arguments) {
  const auto settings = flag_settings(arguments);
  if (arguments.name != kAll) return {{&find_experiment(arguments.name), {arguments.recipe, arguments.out, settings}}};
  std::vector<Planned> planned;
  std::vector<std::string> unknown;
  for (const Assignment& setting : settings) unknown.push_back(setting.key);
  for (const ExperimentEntry& entry : experiment_table()) {
    ExperimentRequest request{
        arguments.recipe, arguments.out.empty() ? "" : std::filesystem::path(arguments.out) / entry.name, {}};
    const std::unique_ptr<Experiment> experiment = entry.make();
    for (const Assignment& setting : settings) {
      if (!experiment->settings().has(setting.key)) continue;
      request.settings.push_back(setting);
      std::erase(unknown, setting.key);
    }
    planned.push_back({&entry, std::move(request)});
  }
  if (!unknown.empty()) fail("experiment all: no experiment has a setting '{}'", unknown.front());
  return planned;
}

void run(const ExperimentArguments& arguments) {
  const std::vector<Planned> planned = plan(arguments);
  if (arguments.print_settings) {
    for (const Planned& one : planned)
      fmt::print("# pmnet experiment {}\n{}", one.entry->name,
                 prepare_experiment(*one.entry, one.request)->settings().to_toml());
    return;
  }
  // Mistakes in the settings of the last experiment are reported before the first has run for hours.
  for (const Planned& one : planned) prepare_experiment(*one.entry, one.request)->parts();
  std::vector<std::pair<std::string, Report>> reports;
  for (const Planned& one : planned) {
    if (arguments.dry_run) {
      try {
        fmt::print("{}: {}\n{}\n", one.entry->name, one.entry->summary, plan_experiment(*one.entry, one.request));
      } catch (const StopRequested&) {
        fmt::print("stopped before the plan of {} was complete\n", one.entry->name);
        return;
      }
      std::fflush(stdout);
      continue;
    }
    const ExperimentSummary summary = run_experiment(*one.entry, one.request);
    if (!summary.finished) {
      fmt::print("stopped; the same command resumes it\n");
      return;
    }
    fmt::print("{}: finished in {}\n", one.entry->name, format_duration(summary.seconds));
    for (const Finding& finding : summary.report.findings)
      if (!finding.checks.empty())
        fmt::print("  {:<13}  {}\n", verdict_name(summary.report.verdict(finding)), finding.heading);
    fmt::print("  report: {}\n", (one.request.out / "report.html").string());
    std::fflush(stdout);
    reports.emplace_back(one.entry->name, summary.report);
    if (arguments.name == kAll) write_overview(reports, arguments.out);
  }
}

}  // namespace

void add_experiment_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("experiment", "Repeat an experiment of the paper and judge its claims");
  const auto arguments = std::make_shared<ExperimentArguments>();
  command->add_option("name", arguments->name, "Which experiment, or 'all' of them in order")
      ->type_name("NAME")
      ->required();
  command
      ->add_option("--recipe", arguments->recipe,
                   "Size: paper, cpu (hours on two cores) or smoke (seconds), or a .toml file [cpu]")
      ->type_name("SIZE|FILE");
  command->add_option("--out", arguments->out, "Folder of the experiment; the same command resumes it")
      ->type_name("DIR");
  command->add_option("--seeds", arguments->seeds, "Trainings of each model")->type_name("N");
  command->add_option("--text", arguments->text, "Texts to train on or to evaluate, of experiments on text")
      ->type_name("FILE...");
  command->add_option("--model", arguments->models, "A trained model and its label, of experiments that train none")
      ->type_name("LABEL=DIR")
      ->take_all();
  command->add_option("--reading", arguments->reading, "Of the copy probe: paper, strict or both")->type_name("R");
  command->add_option("--set", arguments->assignments, "Any setting, such as steps=500; may be repeated")
      ->type_name("KEY=VALUE")
      ->take_all();
  command->add_flag("--print-settings", arguments->print_settings,
                    "Print all settings as a recipe, with what they mean, and end");
  command->add_flag("--dry-run", arguments->dry_run, "Print the parts, their cost and the time, and end");
  std::string footer = "Experiments:\n";
  for (const ExperimentEntry& entry : experiment_table())
    footer += fmt::format("  {:<19}{}\n", entry.name, entry.summary);
  command->footer(footer + "Exit codes: 0 done or stopped by a signal, 2 a mistake in the settings.");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace pmnet
