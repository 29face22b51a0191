#include "experiments/modular/modular_task.h"

#include <algorithm>

#include "base/hash.h"

namespace pmnet {

int64_t ModularTask::questions(const TaskCell& cell) const {
  constexpr int64_t kDigitsBetween = 8;  // at least, on average
  return std::clamp<int64_t>(cell.length / kDigitsBetween, 1, cell.load);
}

TaskRow ModularTask::make_row(const TaskCell& cell, uint64_t key) const {
  const uint64_t places = splitmix64(key, 1), digits = splitmix64(key, 2);
  const int64_t count = questions(cell);
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
    const int64_t digit = draw(digits, static_cast<uint64_t>(i), modulus);
    sum = (sum + digit) % modulus;
    row.add(kFirstDigit + digit);
  }
  return row;
}

}  // namespace pmnet
