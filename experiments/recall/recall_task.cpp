#include "experiments/recall/recall_task.h"

#include <algorithm>

#include "base/hash.h"
#include "data/permutation.h"

namespace pmnet {

int64_t RecallTask::asked(const TaskCell& cell) const {
  return questions == 0 ? cell.load : std::min(questions, cell.load);
}

int64_t RecallTask::row_size(const TaskCell& cell) const { return 1 + 2 * cell.load + cell.length + 2 * asked(cell); }

TaskRow RecallTask::make_row(const TaskCell& cell, uint64_t key) const {
  const Permutation names(static_cast<uint64_t>(keys), splitmix64(key, 1));
  const Permutation order(static_cast<uint64_t>(cell.load), splitmix64(key, 2));
  const auto name = [&](uint64_t fact) { return kFirstKey + static_cast<int64_t>(names(fact)); };
  const auto value = [&](uint64_t fact) { return kFirstValue + draw(key, 16 + fact, values); };
  TaskRow row;
  row.add(bos);
  for (uint64_t fact = 0; fact < static_cast<uint64_t>(cell.load); ++fact) row.add({name(fact), value(fact)});
  const uint64_t filler = splitmix64(key, 3);
  for (int64_t i = 0; i < cell.length; ++i) row.add(kFirstFiller + draw(filler, static_cast<uint64_t>(i), fillers));
  for (uint64_t i = 0; i < static_cast<uint64_t>(asked(cell)); ++i) {
    row.add(name(order(i)));
    row.add(value(order(i)), /*is_answer=*/true);
  }
  return row;
}

}  // namespace pmnet
