// An experiment is a struct of settings, a list of parts that each leave a result in a folder, and a report made from
// the results. run_experiment.h runs it: parts that are finished are not repeated, an interrupted one is resumed.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/framework/settings.h"
#include "experiments/framework/verdict.h"
#include "report/table.h"
#include "train/process_group.h"
#include "train/stop_check.h"

namespace pmnet {

// The results of finished parts by name.
using Results = std::map<std::string, nlohmann::json>;

// What a part has access to while it runs.
class PartContext {
 public:
  struct Shown {
    double share = 0;  // of this part
    std::string text;  // what it is doing
  };
  using ShowProgress = std::function<void(const Shown&)>;
  using Print = std::function<void(const std::string&)>;
  PartContext(std::filesystem::path experiment_folder, const std::string& part, const Results& finished,
              ProcessGroup& group, ShowProgress show, Print print);

  // parts/<name>: metrics, the model it trains, checkpoints while it is unfinished.
  const std::filesystem::path& folder() const { return folder_; }
  const std::filesystem::path& experiment_folder() const { return experiment_folder_; }
  std::filesystem::path folder_of(const std::string& part) const;
  const nlohmann::json& result_of(const std::string& part) const { return finished_.at(part); }

  // Results of an unfinished part that is not a training: it starts from them when it is resumed.
  std::optional<nlohmann::json> partial() const;
  void save_partial(const nlohmann::json& value) const;

  // To be asked where stopping is clean: throw_if_requested(), after saving what should not be lost.
  StopCheck& stop() { return stop_; }
  ProcessGroup& group() { return group_; }
  void progress(double share, const std::string& text) const { show_({share, text}); }
  void print(const std::string& line) const { print_(line); }

 private:
  std::filesystem::path experiment_folder_, folder_;
  const Results& finished_;
  ProcessGroup& group_;
  StopCheck stop_;
  ShowProgress show_;
  Print print_;
};

struct PartCost {
  int64_t parameters = 0;  // of the model that it trains or evaluates
  double bytes = 0;        // that go through the model
  double flop = 0;         // of all of them
};

struct Part {
  std::string name;  // "train pmnet, seed 1"; folder_name() makes the folder of it
  PartCost cost;
  // Seconds of the whole part, from a step whose result is discarded, for --dry-run. Empty: from the operations, at the
  // rate of the parts that were timed.
  std::function<double()> estimate_seconds;
  std::string timed_as;  // parts of one such name take equally long: the first is timed for all; empty: its own
  std::function<nlohmann::json(PartContext& context)> run;
};

// "train pmnet, seed 1" -> "train-pmnet-seed-1"
std::string folder_name(const std::string& part);

// NaN and infinities are null in JSON; this reads them back as NaN.
double number_of(const nlohmann::json& value);

struct Picture {
  std::string file;  // .svg in the experiment's folder
  std::string caption;
};
struct NamedTable {
  std::string caption;
  Table table;
};

// One claim, what was measured, and whether it holds.
struct Finding {
  std::string heading;
  std::string claim = {};          // what the paper says, or what we say beyond it
  std::vector<Check> checks = {};  // the verdict is judge(checks); none: pictures without a claim
  std::vector<Picture> pictures = {};
  std::vector<NamedTable> tables = {};
  std::vector<std::string> remarks = {};  // paragraphs
};

struct Report {
  std::string title;
  std::vector<std::string> protocol;  // paragraphs: what is trained, on what, how it is scored
  std::vector<Finding> findings;
  bool judged = true;  // false: the size is too small for verdicts

  Verdict verdict(const Finding& finding) const { return judged ? judge(finding.checks) : Verdict::kNone; }
};

class Experiment {
 public:
  virtual ~Experiment() = default;
  virtual Settings& settings() = 0;
  // In the order in which they run; a part may use the results and folders of those before it. Cheap: no model is made,
  // and files are read only to check that the inputs exist (problems with them are UserErrors).
  virtual std::vector<Part> parts() = 0;
  // Draws pictures and writes .csv files into `folder`. All parts are finished.
  virtual Report report(const Results& results, const std::filesystem::path& folder) = 0;
};

}  // namespace pmnet
