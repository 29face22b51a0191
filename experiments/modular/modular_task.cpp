#include "experiments/modular/modular_task.h"

#include <algorithm>

#include "base/hash.h"

namespace pmnet {

int64_t ModularTask::questions(const TaskCell& cell) const {
  constexpr int64_t kDigitsBetween = 8;  // at least, on average
  return std::clamp<int64_t>(cell.length / kDigitsBetween, 1, cell.load);
}

TaskRow ModularTask::make_row(const TaskCell& cell, uint64_t key) const {
  const uint64_t places = splitmix64(key, 1), digits = splitmix64(key, 2), choices = splitmix64(key, 3);
  const int64_t count = questions(cell);
  const bool uneven = uneven_from > 0 && cell.length >= uneven_from;
  const auto digit = [&](int64_t i) {
    const bool preferred = uneven && splitmix64(choices, 2 + static_cast<uint64_t>(i)) < splitmix64(choices, 0);
    return preferred ? draw(choices, 1, modulus) : draw(digits, static_cast<uint64_t>(i), modulus);
  };
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
    const int64_t next = digit(i);
    sum = (sum + next) % modulus;
    row.add(kFirstDigit + next);
  }
  return row;
}

}  // namespace pmnet
