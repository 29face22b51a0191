// Runs commands that print one JSON line with bytes_per_second and peak_bytes, one after the other, round after round,
// so that whatever else the machine does hits all of them alike.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/case.h"

namespace pmnet {

struct Contestant {
  std::string label;
  std::vector<std::string> command;  // a program and its arguments
};

struct Spread {
  double median = 0, low = 0, high = 0;
};
Spread spread_of(std::vector<double> values);

struct Measured {
  std::string label;
  std::vector<BenchResult> rounds;
  std::string error;  // the last lines of a command that failed; empty: all rounds ran

  Spread rate() const;
  double median(double BenchResult::* what) const;
  // Of a limit that may differ from round to round.
  double share(const std::function<double(const BenchResult& round)>& limit) const;
  int64_t peak_bytes() const;  // the largest
};

// A contestant that fails in a round is left out of the following ones.
std::vector<Measured> run_interleaved(const std::vector<Contestant>& contestants, int rounds,
                                      const std::function<void(int round, const Contestant&)>& before_each);

// The command that runs `bench_case` in a process of this same program.
std::vector<std::string> command_for(const BenchCase& bench_case, int threads);

}  // namespace pmnet
