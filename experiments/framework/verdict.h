// From measured numbers to a verdict: every claim is a list of checks, each an interval against a threshold.
#pragma once
#include <string>
#include <vector>

#include "base/statistics.h"
#include "report/html_page.h"

namespace pmnet {

enum class Bound { kAtLeast, kAtMost };

struct Check {
  std::string what;   // "accuracy of PMNet over 100,000 bytes"
  Interval measured;  // with its confidence interval
  Bound bound = Bound::kAtLeast;
  double threshold = 0;
  std::string over = "seeds";  // what its independent values are
  // A control decides whether the experiment measures what it is meant to: a model that must fail at what is claimed
  // ("at most chance"), or one that must succeed. Unless it does as required, the claim stays undecided.
  bool control = false;
};

Check at_least(double threshold, const std::string& what, const Interval& measured, const std::string& over = "seeds");
Check at_most(double threshold, const std::string& what, const Interval& measured, const std::string& over = "seeds");
Check control(Check check);

// Holds when the whole interval is on the right side of the threshold, does not hold when all of it is on the wrong
// one.
Verdict verdict_of(const Check& check);
// "accuracy of PMNet over 100,000 bytes: 0.98 (95% interval 0.97 to 0.99 over 3 seeds), expected at least 0.95: holds"
// "control: accuracy without recurrence: 0.06 (...), required at most 0.16: behaved as required"
std::string sentence_of(const Check& check);

// Controls first: one that does not hold, or is undecided, leaves the claim undecided. Then the claim does not hold
// when one check does not, and holds when all do.
Verdict judge(const std::vector<Check>& checks);

}  // namespace pmnet
