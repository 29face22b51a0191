// Sums modulo m: digits below m, now and then a question, which is answered by the sum of all digits so far. With m = 2
// it is parity.
//   BOS 1 0 1 1 = B 0 1 = A
#pragma once
#include "experiments/framework/task.h"

namespace pmnet {

// The length of a cell is the number of digits. Its load is the number of questions, the last after all digits and the
// others anywhere in equal parts of them; short rows have fewer, so that most are further apart than windows reach.
struct ModularTask : Task {
  int64_t modulus = 2;
  int64_t uneven_from = 0;  // rows of so many digits prefer one of them, with a share between none and all; 0: none do

  static constexpr int64_t kFirstDigit = '0', kQuestion = '=', kFirstAnswer = 'A';
  static constexpr int64_t kMaxModulus = 10;

  TaskRow make_row(const TaskCell& cell, uint64_t key) const override;
  int64_t row_size(const TaskCell& cell) const override { return 1 + cell.length + 2 * questions(cell); }
  double chance() const override { return 1.0 / static_cast<double>(modulus); }

 private:
  int64_t questions(const TaskCell& cell) const;
};

}  // namespace pmnet
