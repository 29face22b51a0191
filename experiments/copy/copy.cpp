#include "experiments/copy/copy.h"

#include <fmt/format.h>

#include <algorithm>

namespace pmnet {

namespace {

void require_course(std::vector<std::string>& problems, const std::string& name, int64_t least, int64_t most,
                    const std::vector<int64_t>& lengths) {
  require(problems, least <= most, fmt::format("least is {}; it must not be above {}_most, {}", least, name, most));
  require_ascending(problems, name + "_lengths", lengths);
  require(problems, std::find(lengths.begin(), lengths.end(), most) != lengths.end(),
          fmt::format("{}_lengths must hold {}_most, {}", name, name, most));
}

Course course_of(const CopySettings& settings, std::shared_ptr<const Task> task, const char* name, int64_t most,
                 const std::vector<int64_t>& lengths) {
  Course course{name, std::move(task), settings.stages_to({{1}, settings.least, most, false}), {}};
  for (const int64_t length : lengths) course.cells.push_back({1, length});
  return course;
}

}  // namespace

void CopySettings::list_fields(SettingsTable& table) {
  TaskSettings::list_fields(table);
  table.add("reading", &reading, "N within the reach of the windows, beyond it, or both");
  table.add("least", &least, "Smallest N in training", kPositive);
  table.add("paper_most", &paper_most, "Largest N in training, in the paper's reading");
  table.add("paper_lengths", &paper_lengths, "N in the test, in the paper's reading", kPositive);
  table.add("strict_most", &strict_most, "Largest N in training, in the strict reading");
  table.add("strict_lengths", &strict_lengths, "N in the test, in the strict reading", kPositive);
  table.add("symbols", &task.symbols, "Different bytes to copy", from_to(2, CopyTask::kMaxSymbols));
}

std::vector<std::string> CopySettings::problems() {
  std::vector<std::string> found = TaskSettings::problems();
  if (reading != CopyReading::kStrict) {
    require_course(found, "paper", least, paper_most, paper_lengths);
    require(found, paper_most <= reach(),
            fmt::format("paper_most is {}; beyond the reach of {} it is the strict reading", paper_most, reach()));
  }
  if (reading != CopyReading::kPaper) {
    require_course(found, "strict", least, strict_most, strict_lengths);
    require(found, strict_most > reach(),
            fmt::format("strict_most is {}; up to {} the windows can see what to copy", strict_most, reach()));
  }
  return found;
}

TaskPlan CopyExperiment::plan() const {
  TaskPlan plan;
  auto task = std::make_shared<CopyTask>(settings_.task);
  task->bos = settings_.pmnet_config().bos_token_id;
  task->delimiter = settings_.pmnet_config().eos_token_id;
  plan.candidates = {settings_.candidate(CandidateKind::kPmnet), settings_.candidate(CandidateKind::kWindow)};
  plan.candidates[1].title = "PMNet (No Memory)";
  if (settings_.reading != CopyReading::kStrict)
    plan.courses.push_back(course_of(settings_, task, kPaper, settings_.paper_most, settings_.paper_lengths));
  if (settings_.reading != CopyReading::kPaper)
    plan.courses.push_back(course_of(settings_, task, kStrict, settings_.strict_most, settings_.strict_lengths));
  return plan;
}

}  // namespace pmnet
