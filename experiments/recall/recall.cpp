#include "experiments/recall/recall.h"

#include <fmt/ranges.h>

#include "experiments/framework/registry.h"

namespace pmnet {

void list_recall_fields(SettingsTable& table, RecallTask& task) {
  table.add("values", &task.values, "Different values", from_to(2, RecallTask::kMaxValues));
  table.add("fillers", &task.fillers, "Different filler bytes", from_to(1, RecallTask::kMaxFillers));
}

void RecallSettings::list_fields(SettingsTable& table) {
  ProbeSettings::list_fields(table);
  table.add("keys", &task.keys, "Different keys", from_to(1, RecallTask::kMaxKeys));
  table.add("questions", &task.questions, "Keys that are asked in each row; 0: all of them", kNotNegative);
  list_recall_fields(table, task);
}

std::vector<std::string> RecallSettings::problems() {
  std::vector<std::string> found = ProbeSettings::problems();
  require(found, loads.empty() || loads.back() <= task.keys,
          fmt::format("loads go up to {}; there are only {} keys", fmt::join(loads, ", "), task.keys));
  return found;
}

TaskPlan RecallExperiment::plan() const {
  auto task = std::make_shared<RecallTask>(settings_.task);
  task->bos = settings_.pmnet_config().bos_token_id;
  return {task, settings_.all_candidates(), {{"", settings_.stages_to(settings_.last_stage()), settings_.cells()}}};
}

std::unique_ptr<Experiment> make_recall_experiment() { return std::make_unique<RecallExperiment>(); }

}  // namespace pmnet
