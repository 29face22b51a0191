// The copy-paste probe of the paper (figures 4 and 5), in two readings. The paper counts 2N bytes of looking back, but
// the byte to copy is N back from where it is predicted, so its range (N <= 1,024, windows that reach 1,524) can be
// learned without memory. The strict reading trains on N beyond the reach: there, only memory can answer.
#pragma once
#include <string>
#include <vector>

#include "experiments/copy/copy_task.h"
#include "experiments/framework/experiment.h"
#include "experiments/framework/registry.h"
#include "experiments/framework/task_report.h"
#include "experiments/framework/task_settings.h"
#include "experiments/framework/task_training.h"

namespace pmnet {

struct CopySettings : TaskSettings {
  std::string reading = "both";            // paper, strict, both
  int64_t least = 10;                      // smallest N, trained
  double paper_most = 1024.0 / 1524.0;     // largest N, trained, as a share of the reach
  double paper_longest = 1152.0 / 1524.0;  // largest N, tested
  double strict_most = 1.5, strict_longest = 1.75;
  int64_t symbols = 254;
  int64_t samples = 64;    // per length and seed, in tests
  int64_t lengths = 12;    // tested
  bool curriculum = true;  // raise the largest N as accuracy passes `raise_at`
  int64_t curriculum_start = 2;
  double curriculum_growth = 1.25, raise_at = 0.9;
  double finish_at = 0.995;  // accuracy over all lengths at which a training ends early

  explicit CopySettings(Recipe recipe);
  void visit(const Visitor& visitor) override;
  std::vector<std::string> problems() override;
  CopyTask task() const;

  std::vector<std::string> readings() const;
  int64_t most(const std::string& reading) const;
  int64_t longest(const std::string& reading) const;
  // Ascending; most() and longest() are among them, and in the strict reading the first length beyond the reach.
  std::vector<int64_t> tested(const std::string& reading) const;
  int64_t stage_most(const std::string& reading, int64_t stage) const;
};

class CopyExperiment : public Experiment {
 public:
  explicit CopyExperiment(Recipe recipe) : settings_(recipe) {}
  Settings& settings() override { return settings_; }
  std::vector<Part> parts() override;
  Report report(const Results& results, const std::filesystem::path& folder) override;

 private:
  struct Arm {
    std::string reading;
    Contender contender;
    int64_t seed;
    std::string train_name() const;
    std::string test_name() const;
  };
  std::vector<Arm> arms() const;
  TaskTraining training(const Arm& arm) const;
  Part train_part(const Arm& arm) const;
  Part test_part(const Arm& arm) const;
  nlohmann::json test(const Arm& arm, PartContext& context) const;

  std::vector<double> per_seed(const Results& results, const std::string& reading, Contender contender,
                               const std::string& measure, int64_t length) const;
  Check accuracy(const Results& results, const std::string& reading, Contender contender, int64_t length) const;
  Check norm_check(const Results& results, const std::string& reading) const;
  Check control(const Results& results, int64_t length) const;
  Finding reach_finding(const Results& results) const;
  Finding accuracy_finding(const Results& results, const std::string& reading,
                           const std::filesystem::path& folder) const;
  Finding training_finding(const Results& results, const std::string& reading,
                           const std::filesystem::path& folder) const;
  Table cells(const Results& results) const;

  CopySettings settings_;
};

}  // namespace pmnet
