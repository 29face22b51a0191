#include "experiments/induction/induction.h"

#include <fmt/format.h>

#include <set>

#include "base/hash.h"

namespace pmnet {

TaskRow InductionTask::make_row(const TaskCell& cell, uint64_t key) const {
  const int64_t places = cell.length / 2, last = places - 1;  // of two symbols each
  const int64_t shown = draw(key, 0, last), answer = draw(key, 1, symbols - 1);
  std::set<int64_t> asked = {last};
  for (int64_t i = 1; i < cell.load && shown + 1 < last; ++i)
    asked.insert(shown + 1 + draw(key, 1 + static_cast<uint64_t>(i), last - shown - 1));
  const uint64_t others = splitmix64(key, 0);
  TaskRow row;
  row.add(bos);
  for (int64_t place = 0; place < places; ++place) {
    const bool is_question = asked.contains(place);
    const auto other = [&](uint64_t i) { return draw(others, 2 * static_cast<uint64_t>(place) + i, symbols - 1); };
    row.add(is_question || place == shown ? symbols - 1 : other(0));
    row.add(is_question || place == shown ? answer : other(1), is_question);
  }
  return row;
}

void InductionSettings::list_fields(SettingsTable& table) {
  ProbeSettings::list_fields(table);
  table.add("symbols", &task.symbols, "Different symbols, the special one included", from_to(3, 254));
  table.add("questions", &questions, "Questions in half of the rows in training; the others have one", kPositive);
}

std::vector<std::string> InductionSettings::problems() {
  std::vector<std::string> found = ProbeSettings::problems();
  require(found, loads == std::vector<int64_t>{1}, "loads must be [1]; questions has those of the training");
  require(found, least >= 4, fmt::format("least is {}; a row has at least four symbols", least));
  return found;
}

std::vector<Course> InductionSettings::courses() const {
  auto made = std::make_shared<InductionTask>(task);
  made->bos = shape.bos_token_id;
  Course one = course(made);
  if (questions > 1)
    for (TaskStage& stage : one.stages) stage.loads.push_back(questions);
  return {one};
}

ProbeText InductionSettings::text() const {
  return {"Induction heads",
          fmt::format(
              "A row is BOS and random ones of {} symbols; a special one occurs once at a random place, followed by "
              "some symbol, and again at the end, where that symbol is the answer. Half of the rows in training "
              "have up to {} such questions. Rows have {} to {} symbols in training.",
              task.symbols - 1, questions, least, most),
          "symbols",
          "questions",
          {{"Mamba, 74k parameters", "trained at 256, tested at 2^6 to 2^20", "100% at all lengths",
            "Mamba (2023), appendix E.1"},
           {"attention, absolute positions", "the same", "58.6% at 512, 9.8% at 4,096", "the same"},
           {"H3", "the same", "80.9% at 512", "the same"},
           {"Mamba, weight decay 0.1", "trained at 256", "7%, which is chance", "state-spaces/mamba, issue 298"}}};
}

}  // namespace pmnet
