#include "experiments/copy/copy_task.h"

namespace pmnet {

TaskRow CopyTask::make_row(const TaskCell& cell, uint64_t key) const {
  std::vector<int64_t> source;
  for (int64_t i = 0; i < cell.length; ++i) source.push_back(draw(key, static_cast<uint64_t>(i), symbols));
  TaskRow row;
  row.add(bos);
  row.add(source);
  row.add(delimiter);
  row.add(source, /*are_answers=*/true);
  return row;
}

}  // namespace pmnet
