#include "experiments/stability/stability.h"

#include <fmt/format.h>

#include "experiments/mqar/mqar.h"

namespace pmnet {

void StabilitySettings::list_fields(SettingsTable& table) {
  TaskSettings::list_fields(table);
  table.add("contexts", &contexts, "Largest numbers of filler bytes, trained and tested", from_to(1, kMaxPosition));
  list_mqar_fields(table, task);
}

std::vector<std::string> StabilitySettings::problems() {
  std::vector<std::string> found = TaskSettings::problems();
  require(found, contexts.size() >= 2, "contexts must be two or more");
  require_ascending(found, "contexts", contexts);
  require(found, contexts.empty() || contexts.back() > reach(),
          fmt::format("contexts end within the {} bytes that the windows reach; add a longer one", reach()));
  return found;
}

TaskPlan StabilityExperiment::plan() const {
  TaskPlan plan;
  auto task = std::make_shared<MqarTask>(settings_.task);
  task->bos = settings_.pmnet_config().bos_token_id;
  const auto add = [&](const char* name, bool unconstrained, bool normalized) {
    CandidateSpec candidate = settings_.candidate(CandidateKind::kPmnet);
    candidate.name = candidate.title = candidate.training = name;
    candidate.trained.unconstrained = unconstrained;
    candidate.trained.normalize_gradient = normalized;
    candidate.tested = candidate.trained;
    plan.candidates.push_back(candidate);
  };
  add(kPhases, false, true);
  add(kPhasesRaw, false, false);
  add(kSums, true, true);
  add(kSumsRaw, true, false);
  plan.candidates.push_back(without_recurrence(plan.candidates.front()));
  for (const int64_t context : settings_.contexts)
    plan.courses.push_back({fmt::format("context {}", context),
                            task,
                            settings_.stages_to({{1}, 0, context, /*log_lengths=*/true}),
                            {{1, context}}});
  return plan;
}

}  // namespace pmnet
