#include "experiments/framework/task.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "engine/session.h"

namespace pmnet {

namespace {

// Keys of the random numbers, so that training and test never share a row.
constexpr uint64_t kTrainingKey = 0x7472, kTestKey = 0x7175;
// Numbers of the draws that belong to the row itself; tasks use those from 0.
constexpr uint64_t kLoadDraw = uint64_t{1} << 62, kLengthDraw = kLoadDraw + 1;
constexpr int64_t kIdsAtOnce = int64_t{1} << 22;  // of the rows that are read together
constexpr int64_t kLogitsAtOnce = 16'384;         // positions; bounds the memory for logits

struct RowGroup {
  Tensor ids;     // int64 [B,T], padded at the end
  Tensor graded;  // bool [B,T]
};

RowGroup make_group(const Task& task, const TaskCell& cell, uint64_t key, int64_t first, int64_t count) {
  std::vector<TaskRow> rows;
  int64_t longest = 0;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back(task.make_row(cell, splitmix64(key, static_cast<uint64_t>(first + i))));
    longest = std::max(longest, std::ssize(rows.back().ids));
  }
  RowGroup group{at::zeros({count, longest}, at::kLong), at::zeros({count, longest}, at::kBool)};
  for (int64_t i = 0; i < count; ++i) {
    const TaskRow& row = rows[static_cast<size_t>(i)];
    std::copy(row.ids.begin(), row.ids.end(), group.ids.mutable_data_ptr<int64_t>() + i * longest);
    std::copy(row.graded.begin(), row.graded.end(), group.graded.mutable_data_ptr<bool>() + i * longest);
  }
  return group;
}

}  // namespace

void TaskRow::add(int64_t id, bool is_answer) {
  ids.push_back(id);
  graded.push_back(is_answer ? 1 : 0);
}

void TaskRow::add(const std::vector<int64_t>& more, bool are_answers) {
  for (const int64_t id : more) add(id, are_answers);
}

int64_t draw(uint64_t key, uint64_t number, int64_t choices) {
  return static_cast<int64_t>(splitmix64(key, number) % static_cast<uint64_t>(choices));
}

TaskCell TaskStage::draw_cell(uint64_t key) const {
  if (!cells.empty()) return cells[static_cast<size_t>(draw(key, kLoadDraw, std::ssize(cells)))];
  const int64_t load = loads[static_cast<size_t>(draw(key, kLoadDraw, std::ssize(loads)))];
  const int64_t choices = most - least + 1;
  if (!log_lengths) return {load, least + draw(key, kLengthDraw, choices)};
  const double share = static_cast<double>(splitmix64(key, kLengthDraw) >> 11) * 0x1p-53;  // in [0, 1)
  return {load, least + static_cast<int64_t>(std::pow(static_cast<double>(choices + 1), share)) - 1};
}

bool TaskStage::trains(const TaskCell& cell) const {
  if (!cells.empty()) return std::find(cells.begin(), cells.end(), cell) != cells.end();
  return cell.load <= loads.back() && cell.length >= least && cell.length <= most;
}

Batch make_task_batch(const Task& task, const TaskStage& stage, uint64_t seed, int64_t step, int64_t rows,
                      int64_t distinct_rows) {
  Batch batch;
  batch.step = step;
  batch.rows = rows;
  std::vector<TaskRow> made;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t number = step * rows + row;
    const auto of_row = static_cast<uint64_t>(distinct_rows > 0 ? number % distinct_rows : number);
    const uint64_t key = splitmix64(splitmix64(kTrainingKey, seed), of_row);
    made.push_back(task.make_row(stage.draw_cell(key), key));
    batch.lengths.push_back(std::ssize(made.back().ids) - 1);
    batch.context = std::max(batch.context, batch.lengths.back());
    batch.sample_ids.push_back(number);
  }
  batch.ids.assign(static_cast<size_t>(rows * (batch.context + 1)), 0);
  batch.loss_mask.assign(static_cast<size_t>(rows * batch.context), 0);
  batch.continues.assign(static_cast<size_t>(rows), 0);
  for (int64_t row = 0; row < rows; ++row) {
    const TaskRow& one = made[static_cast<size_t>(row)];
    std::copy(one.ids.begin(), one.ids.end(), batch.ids.begin() + row * (batch.context + 1));
    std::copy(one.graded.begin() + 1, one.graded.end(), batch.loss_mask.begin() + row * batch.context);
  }
  batch.hash = hash_batch(batch);
  return batch;
}

TaskScore score_task(const LanguageModel& model, const MemorySwitches& switches, const Task& task, const TaskCell& cell,
                     int64_t rows, uint64_t seed, const std::function<void(double share)>& between) {
  at::NoGradGuard no_grad;
  const std::shared_ptr<const Engine> engine = make_engine(model, switches);
  const uint64_t key = splitmix64(kTestKey, seed);
  const int64_t rows_at_once = std::clamp<int64_t>(kIdsAtOnce / task.row_size(cell), 1, rows);
  TaskScore score;
  while (score.rows < rows) {
    const RowGroup group = make_group(task, cell, key, score.rows, std::min(rows_at_once, rows - score.rows));
    const int64_t count = group.ids.size(0), last = group.ids.size(1) - 1;
    const int64_t chunk = std::clamp<int64_t>(kLogitsAtOnce / count, 1, 1024);
    Session session(engine, count);
    Tensor wrong = at::zeros({count}, at::kBool);
    for (int64_t begin = 0; begin < last; begin += chunk) {
      if (between)
        between((static_cast<double>(score.rows) + static_cast<double>(count * begin) / static_cast<double>(last)) /
                static_cast<double>(rows));
      const int64_t end = std::min(begin + chunk, last);
      const Tensor inputs = group.ids.slice(1, begin, end), targets = group.ids.slice(1, begin + 1, end + 1);
      const Tensor asked = group.graded.slice(1, begin + 1, end + 1);
      if (!asked.any().item<bool>()) {
        session.read(inputs);
        continue;
      }
      const Tensor logits = session.feed(inputs);
      const Tensor right = logits.argmax(-1) == targets;
      score.answers += asked.sum().item<int64_t>();
      score.right += right.logical_and(asked).sum().item<int64_t>();
      wrong = wrong.logical_or(right.logical_not().logical_and(asked).any(1));
      const Tensor losses = -logits.log_softmax(-1).gather(2, targets.unsqueeze(2)).squeeze(2);
      score.loss += losses.masked_select(asked).sum(at::kDouble).item<double>();
    }
    score.rows += count;
    score.right_rows += wrong.logical_not().sum().item<int64_t>();
  }
  score.loss /= static_cast<double>(std::max<int64_t>(1, score.answers));
  return score;
}

}  // namespace pmnet
