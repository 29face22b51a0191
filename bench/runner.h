// Runs commands that print one JSON line with bytes_per_second and peak_bytes, interleaved round after round, so that
// other load on the machine affects all of them alike.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/case.h"

namespace pmnet {

// Something to measure: a case of this program, or a rival.
struct BenchCandidate {
  std::string label;
  std::vector<std::string> command;     // a program and its arguments
  std::optional<BenchCase> bench_case;  // absent: a rival
};

struct Spread {
  double median = 0, low = 0, high = 0;
};
Spread spread_of(std::vector<double> values);

struct Measured {
  BenchCandidate candidate;
  std::vector<BenchResult> rounds;
  std::string error;  // the last line of a command that failed; empty: all rounds ran

  Spread rate() const;
  double median(double BenchResult::* what) const;
  // Median of rate / limit, where the limit may differ from round to round.
  double share(const std::function<double(const BenchResult& round)>& limit) const;
  int64_t peak_bytes() const;  // the largest
};

// A candidate that fails in a round is left out of the following ones.
std::vector<Measured> run_interleaved(const std::vector<BenchCandidate>& candidates, int rounds,
                                      const std::function<void(int round, const BenchCandidate&)>& before_each);

// The command that measures a case in a new process of this program.
std::vector<std::string> command_for(const BenchCase& bench_case, int threads);

}  // namespace pmnet
