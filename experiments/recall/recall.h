// The recall experiment: facts at the start of a text, filler, one question. Beyond the paper, and the cleanest proof
// that the memory works: past the reach of the windows nothing else can know the answer.
#pragma once
#include <string>
#include <vector>

#include "experiments/framework/experiment.h"
#include "experiments/framework/registry.h"
#include "experiments/framework/task_report.h"
#include "experiments/framework/task_settings.h"
#include "experiments/framework/task_training.h"
#include "experiments/recall/recall_task.h"

namespace pmnet {

struct RecallSettings : TaskSettings {
  std::vector<std::string> contenders = contender_names();
  std::vector<int64_t> facts = {1, 2, 4};
  std::vector<int64_t> distances;                   // tested, ascending
  int64_t least_distance = 0, most_distance = 200;  // trained
  bool log_distances = false;                       // drawn evenly over factors instead of bytes
  int64_t keys = 16, values = 16, fillers = 26;
  int64_t streams = 64;  // questions per cell and seed
  int64_t validation_streams = 64;
  int64_t attention_limit = 4096;  // the Transformer keeps everything it has read: tested no further than this
  int64_t control_limit = 4096;    // models that cannot know are tested no further than this
  double finish_at = 0.995;        // accuracy at which a training ends early

  explicit RecallSettings(Recipe recipe);
  void visit(const Visitor& visitor) override;
  std::vector<std::string> problems() override;
  RecallTask task() const;
};

// A model as it is tested: trained as `contender`, with a switch at the test.
struct RecallCandidate {
  std::string name, title;  // of parts and pictures
  Contender contender = Contender::kPmnet;
  MemorySwitches switches;
  int64_t limit = 0;  // longest distance it is tested at

  bool is_pmnet() const { return contender == Contender::kPmnet && !switches.recurrence; }
  // Nothing but a window: it must not know what is further back.
  bool is_control() const { return !is_pmnet() && (contender == Contender::kPmnet || contender == Contender::kWindow); }
};

class RecallExperiment : public Experiment {
 public:
  explicit RecallExperiment(Recipe recipe) : settings_(recipe) {}
  Settings& settings() override { return settings_; }
  std::vector<Part> parts() override;
  Report report(const Results& results, const std::filesystem::path& folder) override;

 private:
  static std::string train_name(Contender contender, int64_t seed);
  static std::string test_name(const RecallCandidate& candidate, int64_t seed);
  std::vector<RecallCandidate> candidates() const;
  std::vector<int64_t> distances_of(const RecallCandidate& candidate) const;
  TaskTraining training(Contender contender, int64_t seed) const;
  Part train_part(Contender contender, int64_t seed) const;
  Part test_part(const RecallCandidate& candidate, int64_t seed) const;
  nlohmann::json test(const RecallCandidate& candidate, int64_t seed, PartContext& context) const;

  // Per seed the share of right answers; empty where it was not tested.
  std::vector<double> accuracies(const Results& results, const RecallCandidate& candidate, int64_t facts,
                                 int64_t distance) const;
  Check check(const Results& results, const RecallCandidate& candidate, int64_t distance) const;
  Finding reach_finding(const Results& results) const;
  Finding length_finding(const Results& results, const std::filesystem::path& folder) const;
  Finding grid_finding(const Results& results, const std::filesystem::path& folder) const;
  Finding training_finding(const Results& results) const;
  Table cells(const Results& results) const;

  RecallSettings settings_;
};

}  // namespace pmnet
