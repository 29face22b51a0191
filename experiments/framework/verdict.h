// From measured numbers to a verdict: every claim is a list of checks, each an interval against a threshold.
#pragma once
#include <string>
#include <vector>

#include "base/statistics.h"
#include "report/html_page.h"

namespace pmnet {

const char* verdict_name(Verdict verdict);  // "HOLDS", "DOES NOT HOLD", "UNDECIDED"

enum class Bound { kAtLeast, kAtMost };

struct Check {
  std::string what;            // "accuracy of PMNet over 100,000 bytes"
  Interval measured;           // with its confidence interval
  std::string over = "seeds";  // what its independent values are
  Bound bound = Bound::kAtLeast;
  double threshold = 0;
  // A control is a model or a setting that must fail at what is claimed; its check says so ("at most chance"). When the
  // check does not hold, the experiment does not measure what it is meant to, and the claim stays undecided.
  bool control = false;
};

// Holds when the whole interval is on the right side of the threshold, does not hold when all of it is on the wrong
// one.
Verdict verdict_of(const Check& check);
// "accuracy of PMNet over 100,000 bytes: 0.98 (95% interval 0.97 to 0.99 over 3 seeds), expected at least 0.95: HOLDS"
std::string sentence_of(const Check& check);

// Controls first: one that does not hold, or is undecided, leaves the claim undecided. Then the claim does not hold
// when one check does not, and holds when all do.
Verdict judge(const std::vector<Check>& checks);

}  // namespace pmnet
