#include "experiments/framework/probe.h"

#include <fmt/format.h>

namespace pmnet {

void ProbeSettings::list_fields(SettingsTable& table) {
  TaskSettings::list_fields(table);
  table.add("candidates", &candidates, "Models to train");
  table.add("loads", &loads, "What a row holds to be kept, such as pairs; trained and tested",
            from_to(1, kMaxPosition));
  table.add("lengths", &lengths, "Of rows in tests; what a length is depends on the task", from_to(0, kMaxPosition));
  table.add("least", &least, "Smallest length in training", kNotNegative);
  table.add("most", &most, "Largest length in training", kNotNegative);
  table.add("log_lengths", &log_lengths, "Draw lengths evenly over factors instead of bytes");
  table.add("published_anchors", &published_anchors, "Train PMNet with the paper's scale of the anchors too");
  table.add("mamba_limit", &mamba_limit, "Longest test of Mamba; 0: as long as PMNet's", kNotNegative);
  table.add("attention_limit", &attention_limit, "Longest test of the Transformer", kPositive);
  table.add("control_limit", &control_limit, "Longest test of models that cannot know", kPositive);
}

std::vector<std::string> ProbeSettings::problems() {
  std::vector<std::string> found = TaskSettings::problems();
  require(found, !loads.empty() && !lengths.empty(), "loads and lengths must not be empty");
  require(found, least <= most, fmt::format("least is {}; it must not be above most, {}", least, most));
  require_ascending(found, "loads", loads);
  require_ascending(found, "lengths", lengths);
  require(found, lengths.empty() || lengths.back() > reach(),
          fmt::format("lengths must go beyond the {} bytes that the windows reach", reach()));
  require(found, !candidates.empty(), "candidates is empty; name at least one model");
  return found;
}

Course ProbeSettings::course(std::shared_ptr<const Task> task, const std::string& name) const {
  Course course{name, std::move(task), stages_to({loads, least, most, log_lengths}), {}};
  for (const int64_t load : loads)
    for (const int64_t length : lengths) course.cells.push_back({load, length});
  return course;
}

std::vector<TaskCell> ProbeSettings::judged_cells(const Course& course) const {
  std::vector<TaskCell> cells;
  for (const TaskCell& cell : course.cells) {  // ascending by load, then by length
    const bool first_of_load = cells.empty() || cells.back().load != cell.load;
    if (cell.length > reach() && (first_of_load || course.stages.back().trains(cell))) cells.push_back(cell);
  }
  return cells;
}

std::vector<CandidateSpec> ProbeSettings::all_candidates() const {
  std::vector<CandidateSpec> list;
  for (const CandidateKind kind : candidates) {
    list.push_back(candidate(kind, kind == CandidateKind::kTransformer ? attention_limit
                                   : kind == CandidateKind::kWindow    ? control_limit
                                   : kind == CandidateKind::kMamba     ? mamba_limit
                                                                       : 0));
    if (kind != CandidateKind::kPmnet) continue;
    const CandidateSpec pmnet = list.back();
    list.push_back(without_recurrence(pmnet, control_limit));
    if (!published_anchors) continue;
    CandidateSpec published = pmnet;
    published.name = published.training = "pmnet with published anchors";
    published.title = "PMNet, Published Anchors";
    std::get<PmnetConfig>(published.config).memory_embedding_std = PmnetConfig{}.memory_embedding_std;
    list.push_back(published);
  }
  return list;
}

}  // namespace pmnet
