#include "experiments/mqar/mqar_task.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "data/permutation.h"

namespace pmnet {

namespace {

constexpr double kPowerOfGaps = 0.01;  // Zoology's power_a

// `count` of `places` without repetition, place j with a weight of (j + 1)^(a - 1): those with the shortest waiting
// times of exponential clocks whose rates are the weights.
std::vector<int64_t> power_law_places(int64_t count, int64_t places, uint64_t key) {
  std::vector<std::pair<double, int64_t>> waits;
  for (int64_t j = 0; j < places; ++j) {
    const double uniform = (static_cast<double>(splitmix64(key, static_cast<uint64_t>(j)) >> 11) + 0.5) * 0x1p-53;
    waits.emplace_back(-std::log(uniform) / std::pow(static_cast<double>(j + 1), kPowerOfGaps - 1), j);
  }
  std::sort(waits.begin(), waits.end());
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i) chosen.push_back(waits[static_cast<size_t>(i)].second);
  return chosen;
}

}  // namespace

int64_t MqarTask::asked(const TaskCell& cell) const {
  return questions == 0 ? cell.load : std::min(questions, cell.load);
}

int64_t MqarTask::row_size(const TaskCell& cell) const {
  return zoology ? 1 + cell.length : 1 + 2 * cell.load + cell.length + 2 * asked(cell);
}

TaskRow MqarTask::make_row(const TaskCell& cell, uint64_t key) const {
  const Permutation names(static_cast<uint64_t>(keys), splitmix64(key, 1));
  const auto name = [&](int64_t pair) { return kFirstKey + static_cast<int64_t>(names(static_cast<uint64_t>(pair))); };
  const auto value = [&](int64_t pair) { return kFirstValue + draw(key, 16 + static_cast<uint64_t>(pair), values); };
  const uint64_t filler = splitmix64(key, 3);
  TaskRow row;
  row.add(bos);
  for (int64_t pair = 0; pair < cell.load; ++pair) row.add({name(pair), value(pair)});
  // After the pairs, places of two bytes: filler, or a question with its answer.
  const auto add_filler = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      row.add(kFirstFiller + draw(filler, static_cast<uint64_t>(std::ssize(row.ids)), fillers));
  };
  const auto ask = [&](int64_t pair) {
    row.add(name(pair));
    row.add(value(pair), /*is_answer=*/true);
  };
  const Permutation order(static_cast<uint64_t>(cell.load), splitmix64(key, 2));
  if (!zoology) {
    add_filler(cell.length);
    for (int64_t i = 0; i < asked(cell); ++i) ask(static_cast<int64_t>(order(static_cast<uint64_t>(i))));
    return row;
  }
  const int64_t places = (cell.length - 2 * cell.load) / 2;
  std::vector<int64_t> pair_at(static_cast<size_t>(places), -1);
  const std::vector<int64_t> chosen = power_law_places(asked(cell), places, splitmix64(key, 4));
  for (int64_t i = 0; i < std::ssize(chosen); ++i)
    pair_at[static_cast<size_t>(chosen[static_cast<size_t>(i)])] =
        static_cast<int64_t>(order(static_cast<uint64_t>(i)));
  for (const int64_t pair : pair_at) pair < 0 ? add_filler(2) : ask(pair);
  return row;
}

}  // namespace pmnet
