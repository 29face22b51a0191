#include "experiments/modular/modular_task.h"

#include <algorithm>

#include "base/hash.h"

namespace pmnet {

int64_t ModularTask::questions(const TaskCell& cell) const {
  constexpr int64_t kDigitsBetween = 8;  // at least, on average
  return std::clamp<int64_t>(cell.length / kDigitsBetween, 1, cell.load);
}

int64_t ModularTask::digit(uint64_t key, int64_t place, bool uneven) const {
  const uint64_t digits = splitmix64(key, 2), choices = splitmix64(key, 3);
  const auto favoured = [&] { return splitmix64(choices, 2 + static_cast<uint64_t>(place)) < splitmix64(choices, 0); };
  return uneven && favoured() ? draw(choices, 1, modulus) : draw(digits, static_cast<uint64_t>(place), modulus);
}

TaskRow ModularTask::make_row(const TaskCell& cell, uint64_t key) const {
  const uint64_t places = splitmix64(key, 1);
  const int64_t count = questions(cell);
  const bool uneven = uneven_from > 0 && cell.length >= uneven_from;
  // Digits before question `i`.
  const auto place = [&](int64_t i) {
    const int64_t begin = i * cell.length / count, end = (i + 1) * cell.length / count;
    return i + 1 == count ? end : begin + 1 + draw(places, static_cast<uint64_t>(i), end - begin);
  };
  TaskRow row;
  row.add(bos);
  int64_t sum = 0, asked = 0;
  for (int64_t i = 0; i <= cell.length; ++i) {
    for (; asked < count && place(asked) == i; ++asked) {
      row.add(kQuestion);
      row.add(kFirstAnswer + sum, /*is_answer=*/true);
    }
    if (i == cell.length) break;
    const int64_t next = digit(key, i, uneven);
    sum = (sum + next) % modulus;
    row.add(kFirstDigit + next);
  }
  return row;
}

}  // namespace pmnet
