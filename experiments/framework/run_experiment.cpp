#include "experiments/framework/run_experiment.h"

#include <ATen/Parallel.h>
#include <fmt/chrono.h>
#include <fmt/ranges.h>

#include <cmath>
#include <ctime>
#include <set>

#include "base/atomic_folder.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/folder_lock.h"
#include "base/format.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/stop_signal.h"
#include "base/version.h"
#include "experiments/framework/report_files.h"
#include "report/progress.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSettingsFile = "settings.json";
constexpr const char* kResultFile = "result.json";

json program_json() {
  return {{"version", version()}, {"revision", source_revision()}, {"build", build_description()}};
}

json machine_json() {
  const Machine machine = query_machine();
  return {{"processor", machine.processor},
          {"cores", machine.cores},
          {"memory_bytes", machine.memory_bytes},
          {"threads", at::get_num_threads()}};
}

std::vector<Part> checked_parts(Experiment& experiment) {
  std::vector<Part> parts = experiment.parts();
  std::set<std::string> folders;
  for (const Part& part : parts)
    if (!folders.insert(folder_name(part.name)).second)
      throw std::logic_error("two parts of the experiment share the folder " + folder_name(part.name));
  return parts;
}

// Refuses a folder that holds something else; says whether this experiment was begun there.
bool was_begun(const ExperimentEntry& entry, Experiment& experiment, const fs::path& folder) {
  const fs::path file = folder / kSettingsFile;
  if (!fs::exists(file)) {
    if (fs::exists(folder) && !fs::is_directory(folder))
      fail("{}: is a file; choose a folder with --out", folder.string());
    if (fs::exists(folder) && !holds_nothing_but_a_lock(folder))
      fail("{}: holds files that are not an experiment's; choose an empty folder with --out", folder.string());
    return false;
  }
  const json saved = read_json(file);
  const std::string name = saved.value("experiment", "");
  if (name != entry.name)
    fail("{}: holds the experiment '{}', not '{}'; choose another folder with --out", folder.string(), name,
         entry.name);
  const auto differences =
      setting_differences(saved.value("settings", json::object()), experiment.settings().to_json());
  if (!differences.empty())
    fail("{}: holds this experiment with other settings: {}; use those, or choose another folder with --out",
         folder.string(), fmt::join(differences, "; "));
  return true;
}

class Runner {
 public:
  Runner(const ExperimentEntry& entry, const ExperimentRequest& request)
      : entry_(entry), recipe_(recipe_name(find_recipe(entry.name, request.recipe))) {
    if (request.out.empty()) fail("--out is missing; name a folder for the experiment");
    folder_ = fs::absolute(request.out);
    experiment_ = prepare_experiment(entry, request);
    parts_ = checked_parts(*experiment_);
  }

  ExperimentSummary run() {
    const double started = steady_seconds();
    open_folder();
    read_finished();
    ExperimentSummary summary;
    try {
      for (const Part& part : parts_)
        if (!results_.contains(part.name)) run_part(part);
      line_.finish();
      summary.report = experiment_->report(results_, folder_);
      summary.report.judged = experiment_->settings().verdicts;
      write_report_files(summary.report, read_json(folder_ / kSettingsFile), part_records(), folder_);
      summary.finished = true;
    } catch (const StopRequested&) {
      line_.finish();
    }
    summary.seconds = steady_seconds() - started;
    return summary;
  }

 private:
  void open_folder() {
    was_begun(entry_, *experiment_, folder_);  // before anything is made there
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) fail("{}: cannot be created: {}; choose another folder with --out", folder_.string(), error.message());
    lock_.emplace(folder_, "another process");
    if (was_begun(entry_, *experiment_, folder_)) return;
    const json settings = {{"experiment", entry_.name},
                           {"recipe", recipe_},
                           {"settings", experiment_->settings().to_json()},
                           {"program", program_json()},
                           {"machine", machine_json()},
                           {"begun", fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(std::time(nullptr)))}};
    write_file_atomically(folder_ / kSettingsFile, settings.dump(1) + "\n");
  }

  fs::path result_file(const Part& part) const { return folder_ / "parts" / folder_name(part.name) / kResultFile; }

  void read_finished() {
    double flop = 0;
    for (const Part& part : parts_) {
      flop += part.cost.flop;
      if (!fs::exists(result_file(part))) continue;
      const json record = read_json(result_file(part));
      if (!record.contains("result"))
        fail("{}: holds no result; delete it, and the part is run again", result_file(part).string());
      records_[part.name] = record;
      results_[part.name] = record["result"];
      done_flop_ += part.cost.flop;
    }
    meter_.emplace(flop, done_flop_);
    line_.print(fmt::format("{}: {} parts, {} finished", entry_.name, parts_.size(), results_.size()));
  }

  void run_part(const Part& part) {
    const std::string title = fmt::format("{} {}/{}: {}", entry_.name, results_.size() + 1, parts_.size(), part.name);
    const auto show = [&](const PartContext::Shown& shown) {
      meter_->set_done(done_flop_ + shown.share * part.cost.flop);
      line_.update([&] {
        return fmt::format("{}, {}, {:.0f}% of all, {} left", title, shown.text, 100 * meter_->share(),
                           format_duration(meter_->seconds_left()));
      });
    };
    PartContext context(folder_, part.name, results_, group_, show,
                        [&](const std::string& text) { line_.print(text); });
    context.stop().throw_if_requested();
    show({0, "starting"});
    const double started = steady_seconds();
    const json result = part.run(context);
    const json record = {{"part", part.name},
                         {"result", result},
                         {"seconds", steady_seconds() - started},  // of the last session
                         {"parameters", part.cost.parameters},
                         {"bytes", part.cost.bytes},
                         {"program", program_json()},
                         {"machine", machine_json()}};
    write_file_atomically(result_file(part), record.dump(1) + "\n");
    // As read back: what the report sees must not depend on whether a part was run now or before.
    records_[part.name] = json::parse(record.dump());
    results_[part.name] = records_[part.name]["result"];
    done_flop_ += part.cost.flop;
    line_.print(fmt::format("{}: done in {}", title, format_duration(record["seconds"].get<double>())));
  }

  std::vector<json> part_records() const {
    std::vector<json> records;
    for (const Part& part : parts_) records.push_back(records_.at(part.name));
    return records;
  }

  const ExperimentEntry& entry_;
  fs::path folder_;
  std::string recipe_;
  std::unique_ptr<Experiment> experiment_;
  std::vector<Part> parts_;
  std::optional<FolderLock> lock_;
  ProcessGroup group_;
  Results results_;
  std::map<std::string, json> records_;
  double done_flop_ = 0;
  std::optional<RateMeter> meter_;
  ProgressLine line_;
};

// Seconds per part: timed, or from the operations at the rate of those that were; negative: unknown.
std::vector<double> estimate_parts(const std::vector<Part>& parts) {
  std::map<std::string, double> timed;
  double timed_seconds = 0, timed_flop = 0;
  std::vector<double> seconds;
  ProgressLine line;
  for (const Part& part : parts) {
    if (!part.estimate_seconds) {
      seconds.push_back(-1);
      continue;
    }
    if (StopSignals::requested()) throw StopRequested{};
    const std::string key = part.timed_as.empty() ? part.name : part.timed_as;
    if (!timed.contains(key)) {
      line.update([&] { return fmt::format("timing one step of: {}", part.name); });
      timed[key] = part.estimate_seconds();
      timed_seconds += timed[key];
      timed_flop += part.cost.flop;
    }
    seconds.push_back(timed[key]);
  }
  line.finish();
  for (size_t i = 0; i < parts.size() && timed_flop > 0; ++i)
    if (seconds[i] < 0) seconds[i] = parts[i].cost.flop * timed_seconds / timed_flop;
  return seconds;
}

}  // namespace

std::unique_ptr<Experiment> prepare_experiment(const ExperimentEntry& entry, const ExperimentRequest& request) {
  std::unique_ptr<Experiment> experiment = entry.make();
  experiment->settings().set(read_toml(find_recipe(entry.name, request.recipe)));
  experiment->settings().set(request.settings);
  if (const auto problems = experiment->settings().problems(); !problems.empty())
    fail("experiment {}: {}", entry.name, fmt::join(problems, "; "));
  return experiment;
}

ExperimentSummary run_experiment(const ExperimentEntry& entry, const ExperimentRequest& request) {
  const StopSignals signals;
  return Runner(entry, request).run();
}

std::string plan_experiment(const ExperimentEntry& entry, const ExperimentRequest& request) {
  const StopSignals signals;
  const std::unique_ptr<Experiment> experiment = prepare_experiment(entry, request);
  const std::vector<Part> parts = checked_parts(*experiment);
  if (!request.out.empty()) was_begun(entry, *experiment, request.out);
  const std::vector<double> seconds = estimate_parts(parts);
  Table table({"part", "parameters", "bytes", "operations", "time"});
  double bytes = 0, flop = 0, time = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const PartCost& cost = parts[i].cost;
    table.add_row({parts[i].name, format_count(cost.parameters), format_si(cost.bytes), format_si(cost.flop),
                   format_duration(seconds[i])});
    bytes += cost.bytes;
    flop += cost.flop;
    time = seconds[i] < 0 ? NAN : time + seconds[i];
  }
  table.add_row({"all", "", format_si(bytes), format_si(flop), format_duration(time)});
  return table.text();
}

}  // namespace pmnet
