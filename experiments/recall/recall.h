// The recall experiment: facts at the start of a text, filler, questions. Beyond the paper, and the cleanest proof that
// the memory works: past the reach of the windows nothing else can know the answers.
#pragma once
#include "experiments/framework/task_experiment.h"
#include "experiments/recall/recall_task.h"

namespace pmnet {

struct RecallSettings : ProbeSettings {
  RecallTask task;

  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
};

// The values and fillers of a recall task, for settings that hold one.
void list_recall_fields(SettingsTable& table, RecallTask& task);

class RecallExperiment : public TaskExperiment {
 public:
  Settings& settings() override { return settings_; }
  const TaskSettings& task_settings() const override { return settings_; }
  TaskPlan plan() const override;
  Report report(const Results& results, const std::filesystem::path& folder) override;

 private:
  RecallSettings settings_;
};

}  // namespace pmnet
