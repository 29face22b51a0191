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
  bool dry_run = false;
};

// Flags are settings under other names; `all` gives each experiment those that it has.
std::vector<std::pair<std::string, std::vector<std::string>>> flag_settings(const ExperimentArguments& arguments) {
  std::vector<std::pair<std::string, std::vector<std::string>>> settings;
  if (!arguments.seeds.empty()) settings.push_back({"seeds", {arguments.seeds}});
  if (!arguments.text.empty()) settings.push_back({"text", arguments.text});
  if (!arguments.models.empty()) settings.push_back({"models", arguments.models});
  if (!arguments.reading.empty()) settings.push_back({"reading", {arguments.reading}});
  for (const std::string& assignment : arguments.assignments) {
    const Assignment parsed = parse_assignment(assignment);
    settings.push_back({parsed.key, parsed.values});
  }
  return settings;
}

struct Planned {
  const ExperimentEntry* entry;
  ExperimentRequest request;
};

std::vector<Planned> plan(const ExperimentArguments& arguments) {
  const Recipe recipe = recipe_of(arguments.recipe);
  const auto settings = flag_settings(arguments);
  if (arguments.name != kAll) return {{&find_experiment(arguments.name), {recipe, arguments.out, settings}}};
  std::vector<Planned> planned;
  std::vector<std::string> nobody_has;
  for (const auto& [key, values] : settings) nobody_has.push_back(key);
  for (const ExperimentEntry& entry : experiment_table()) {
    ExperimentRequest request{
        recipe, arguments.out.empty() ? "" : std::filesystem::path(arguments.out) / entry.name, {}};
    const std::unique_ptr<Experiment> experiment = entry.make(recipe);
    for (const auto& setting : settings) {
      if (!experiment->settings().has(setting.first)) continue;
      request.settings.push_back(setting);
      std::erase(nobody_has, setting.first);
    }
    planned.push_back({&entry, std::move(request)});
  }
  if (!nobody_has.empty()) fail("experiment all: no experiment has a setting '{}'", nobody_has.front());
  return planned;
}

void run(const ExperimentArguments& arguments) {
  const std::vector<Planned> planned = plan(arguments);
  // Mistakes in the settings of the last experiment are told before the first has run for hours.
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
      fmt::print("stopped; the same command goes on where it was\n");
      return;
    }
    fmt::print("{}: finished in {}\n", one.entry->name, format_duration(summary.seconds));
    for (const Finding& finding : summary.report.findings)
      if (!finding.checks.empty()) fmt::print("  {:<13}  {}\n", verdict_name(judge(finding.checks)), finding.heading);
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
  command->add_option("--recipe", arguments->recipe, "Size: paper, cpu (hours on two cores) or smoke (seconds) [cpu]")
      ->type_name("R");
  command->add_option("--out", arguments->out, "Folder of the experiment; run again to go on")->type_name("DIR");
  command->add_option("--seeds", arguments->seeds, "Trainings of each model")->type_name("N");
  command->add_option("--text", arguments->text, "Texts to train on or to evaluate, where there is a use for them")
      ->type_name("FILE...");
  command->add_option("--model", arguments->models, "A trained model and its label, where there is a use for it")
      ->type_name("LABEL=DIR")
      ->take_all();
  command->add_option("--reading", arguments->reading, "Of the copy probe: paper, strict or both")->type_name("R");
  command->add_option("--set", arguments->assignments, "Any setting, such as steps=500; may be repeated")
      ->type_name("KEY=VALUE")
      ->take_all();
  command->add_flag("--dry-run", arguments->dry_run, "Print the parts, their cost and the time, and end");
  std::string footer = "Experiments:\n";
  for (const ExperimentEntry& entry : experiment_table())
    footer += fmt::format("  {:<14}{}\n", entry.name, entry.summary);
  command->footer(footer + "Exit codes: 0 done or stopped by a signal, 2 a mistake in the settings.");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace pmnet
