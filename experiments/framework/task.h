// A synthetic task: rows of ids in which some must be predicted. Every row is a pure function of a key, so all models
// of a seed see the same bytes; training draws fresh rows at every step.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

#include "data/batcher.h"
#include "model/language_model.h"

namespace pmnet {

// How hard a row is.
struct TaskCell {
  int64_t load = 1;    // what must be kept: facts, pairs, needles
  int64_t length = 0;  // how far: bytes of filler, bytes to copy, bits of a parity
  auto operator<=>(const TaskCell&) const = default;
};

struct TaskRow {
  std::vector<int64_t> ids;     // from BOS on
  std::vector<uint8_t> graded;  // per id: 1 where it is an answer, which the model must predict

  void add(int64_t id, bool is_answer = false);
  void add(const std::vector<int64_t>& more, bool are_answers = false);
};

class Task {
 public:
  int64_t bos = 254;

  virtual ~Task() = default;
  virtual TaskRow make_row(const TaskCell& cell, uint64_t key) const = 0;
  virtual int64_t row_size(const TaskCell& cell) const = 0;  // ids, for the cost
  virtual double chance() const = 0;                         // accuracy of a guess among the possible answers
};

// The `number`-th random choice out of `choices` that belongs to a key.
int64_t draw(uint64_t key, uint64_t number, int64_t choices);

// What one stage of training draws its rows from.
struct TaskStage {
  std::vector<int64_t> loads = {1};  // the last is the hardest
  int64_t least = 0, most = 0;       // lengths
  bool log_lengths = false;          // each doubling of the length equally likely, instead of each length
  std::vector<TaskCell> cells = {};  // given: rows are of these alone, each equally likely
  double rate = 1;                   // of the learning rate
  int64_t rows = 0;                  // per step; 0: as many as in every stage

  TaskCell draw_cell(uint64_t key) const;
  TaskCell hardest() const { return cells.empty() ? TaskCell{loads.back(), most} : cells.back(); }
  bool trains(const TaskCell& cell) const;  // rows like these may be drawn, or easier ones of that load
};

// Rows of `step`; the loss counts the answers only. With `distinct_rows` the same ones return after so many.
Batch make_task_batch(const Task& task, const TaskStage& stage, uint64_t seed, int64_t step, int64_t rows,
                      int64_t distinct_rows = 0);

struct TaskScore {
  int64_t answers = 0, right = 0;    // right: the likeliest of all ids is the answer, the true ones before it being fed
  int64_t rows = 0, right_rows = 0;  // right: without a single mistake
  double loss = 0;                   // nats per answer

  double accuracy() const { return static_cast<double>(right) / static_cast<double>(answers); }
  double row_accuracy() const { return static_cast<double>(right_rows) / static_cast<double>(rows); }
};

// Reads rows of one cell in chunks, so that memory does not grow with the length. `between` is called with the share
// that is done and may throw.
TaskScore score_task(const LanguageModel& model, const MemorySwitches& switches, const Task& task, const TaskCell& cell,
                     int64_t rows, uint64_t seed, const std::function<void(double share)>& between = {});

// Trainings choose their best weights by other rows than those of the test, whose seeds are small numbers.
inline uint64_t validation_seed(int64_t seed) { return (uint64_t{1} << 32) + static_cast<uint64_t>(seed); }

}  // namespace pmnet
