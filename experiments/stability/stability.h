// The paper's central claim, measured instead of asserted: gradients through a memory of rotating phases stay bounded
// however long the text, those through unconstrained sums do not; each with and without the normalisation by the number
// of writes. The task is recall of one fact, over context lengths.
#pragma once
#include "experiments/framework/task_experiment.h"
#include "experiments/mqar/mqar_task.h"

namespace pmnet {

struct StabilitySettings : TaskSettings {
  std::vector<int64_t> contexts;  // ascending: filler bytes at most, trained and tested
  MqarTask task;

  StabilitySettings() { task.keys = 1; }
  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
};

class StabilityExperiment : public TaskExperiment {
 public:
  Settings& settings() override { return settings_; }
  const TaskSettings& task_settings() const override { return settings_; }
  TaskPlan plan() const override;  // one course per context
  Report report(const Results& results, const std::filesystem::path& folder) override;

  static constexpr const char *kPhases = "phases, normalised", *kPhasesRaw = "phases, not normalised",
                              *kSums = "unconstrained, normalised", *kSumsRaw = "unconstrained, not normalised";

 private:
  StabilitySettings settings_;
};

}  // namespace pmnet
