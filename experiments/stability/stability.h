// The paper's central claim, measured instead of asserted: gradients through a memory of rotating phases stay bounded
// however long the text, those through unconstrained sums do not; each with and without the normalisation by the number
// of writes. The task is recall of one fact, over context lengths.
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

struct StabilitySettings : TaskSettings {
  std::vector<int64_t> contexts;  // ascending: filler bytes at most, trained and tested
  int64_t values = 16, fillers = 26;
  int64_t streams = 128;  // questions per test

  explicit StabilitySettings(Recipe recipe);
  void visit(const Visitor& visitor) override;
  std::vector<std::string> problems() override;
  RecallTask task() const;
};

class StabilityExperiment : public Experiment {
 public:
  explicit StabilityExperiment(Recipe recipe) : settings_(recipe) {}
  Settings& settings() override { return settings_; }
  std::vector<Part> parts() override;
  Report report(const Results& results, const std::filesystem::path& folder) override;

 private:
  struct Variant {
    std::string name;  // of parts and pictures
    bool unconstrained = false, normalized = true;
    MemorySwitches switches() const;
  };
  static const std::vector<Variant>& variants();
  static std::string part_name(const Variant& variant, int64_t context, int64_t seed);
  TaskTraining training(const Variant& variant, int64_t context, int64_t seed) const;
  Part part(const Variant& variant, int64_t context, int64_t seed) const;
  nlohmann::json run(const Variant& variant, int64_t context, int64_t seed, PartContext& context_of_part) const;

  std::vector<double> per_seed(const Results& results, const Variant& variant, int64_t context,
                               const std::string& measure) const;
  // log10 of one variant's norms over another's, per seed.
  Check norm_check(const Results& results, const Variant& above, int64_t above_context, const Variant& below,
                   int64_t below_context, const std::string& measure) const;
  Finding rotation_finding(const Results& results, const std::filesystem::path& folder) const;
  Finding constraint_finding(const Results& results) const;
  Finding normalization_finding(const Results& results) const;
  Finding training_finding(const Results& results, const std::filesystem::path& folder) const;
  LineChart over_context(const Results& results, const std::string& measure, const std::string& title,
                         const std::string& y_label, Scale y_scale) const;
  Table cells(const Results& results) const;

  StabilitySettings settings_;
};

}  // namespace pmnet
