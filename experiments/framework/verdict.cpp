#include "experiments/framework/verdict.h"

#include <fmt/format.h>

#include <cmath>

namespace pmnet {

namespace {

std::string outcome_of(const Check& check) {
  const Verdict verdict = verdict_of(check);
  if (!check.control) return verdict_name(verdict);
  return verdict == Verdict::kHolds   ? "behaved as required"
         : verdict == Verdict::kFails ? "did not behave as required, so the claim is undecided"
                                      : "undecided, and so is the claim";
}

}  // namespace

Check at_least(double threshold, const std::string& what, const Interval& measured, const std::string& over) {
  return {what, measured, Bound::kAtLeast, threshold, over, false};
}

Check at_most(double threshold, const std::string& what, const Interval& measured, const std::string& over) {
  return {what, measured, Bound::kAtMost, threshold, over, false};
}

Check control(Check check) {
  check.control = true;
  return check;
}

Verdict verdict_of(const Check& check) {
  const bool at_least = check.bound == Bound::kAtLeast;
  if (std::isnan(check.measured.mean)) return Verdict::kOpen;
  if (at_least ? check.measured.low >= check.threshold : check.measured.high <= check.threshold) return Verdict::kHolds;
  if (at_least ? check.measured.high < check.threshold : check.measured.low > check.threshold) return Verdict::kFails;
  return Verdict::kOpen;
}

std::string sentence_of(const Check& check) {
  const Interval& measured = check.measured;
  const std::string range = std::isfinite(measured.low) && std::isfinite(measured.high)
                                ? fmt::format("95% interval {:.4g} to {:.4g} over {} {}", measured.low, measured.high,
                                              measured.count, check.over)
                                : fmt::format("no interval: the number of {} is {}", check.over, measured.count);
  return fmt::format("{}{}: {:.4g} ({}), {} {} {:.4g}: {}", check.control ? "control: " : "", check.what, measured.mean,
                     range, check.control ? "required" : "expected",
                     check.bound == Bound::kAtLeast ? "at least" : "at most", check.threshold, outcome_of(check));
}

Verdict judge(const std::vector<Check>& checks) {
  bool all_hold = !checks.empty(), one_fails = false;
  for (const Check& check : checks) {
    const Verdict verdict = verdict_of(check);
    if (check.control && verdict != Verdict::kHolds) return Verdict::kOpen;
    all_hold = all_hold && verdict == Verdict::kHolds;
    one_fails = one_fails || verdict == Verdict::kFails;
  }
  return one_fails ? Verdict::kFails : all_hold ? Verdict::kHolds : Verdict::kOpen;
}

}  // namespace pmnet
