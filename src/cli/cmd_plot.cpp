#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/standard_streams.h"
#include "cli/commands.h"
#include "cli/outputs.h"
#include "report/curves.h"

namespace pmnet {

namespace {

struct PlotOptions {
  std::vector<std::string> runs;
  std::vector<std::string> metrics;
  std::string out;
  bool log_y = false, force = false;
};

void plot_runs(const PlotOptions& options) {
  require_free_file(options.out, {.force = options.force, .inputs = {options.runs.begin(), options.runs.end()}});
  const std::vector<Run> runs = read_runs(options.runs);
  for (const Run& run : runs)
    if (run.metrics.unreadable_lines > 0)
      print_error("note: {} damaged lines of {} were left out", run.metrics.unreadable_lines, run.folder.string());
  std::vector<LineChart> charts = curves_of(runs, options.metrics);
  if (options.log_y)
    for (LineChart& chart : charts) chart.y_scale = Scale::kLog10;
  std::vector<std::string> pictures = {options.out};
  if (options.out.empty()) {
    const bool in_run = options.runs.size() == 1 && std::filesystem::is_directory(options.runs[0]);
    const std::filesystem::path folder = in_run ? options.runs[0] : ".";
    pictures = {(folder / "curves.png").string(), (folder / "curves.svg").string()};
  }
  for (const std::string& picture : pictures) {
    write_charts(charts, picture);
    fmt::print("{}\n", picture);
  }
}

}  // namespace

void add_plot_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plot", "Draw loss and gradient norm of one or several runs");
  const auto options = std::make_shared<PlotOptions>();
  command->add_option("runs", options->runs, "Folders of runs, or metrics.jsonl files")->type_name("RUN")->required();
  command->add_option("--metric", options->metrics, "Draw this logged value instead; may be repeated")
      ->type_name("NAME");
  command->add_option("--out", options->out, "Picture to write, .png or .svg [curves.png and curves.svg in the run]")
      ->type_name("FILE");
  command->add_flag("--log-y", options->log_y, "Logarithmic vertical axis");
  add_force_option(*command, options->force);
  command->callback([options] { plot_runs(*options); });
}

}  // namespace pmnet
