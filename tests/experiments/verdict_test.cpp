#include "experiments/framework/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace pmnet {
namespace {

Check at_least(double threshold, double low, double high, bool control = false) {
  Check check;
  check.what = "accuracy";
  check.measured = {(low + high) / 2, low, high, 3};
  check.threshold = threshold;
  check.control = control;
  return check;
}

Check at_most(double threshold, double low, double high, bool control = false) {
  Check check = at_least(threshold, low, high, control);
  check.bound = Bound::kAtMost;
  return check;
}

TEST(Verdict, TheWholeIntervalMustBeOnOneSide) {
  EXPECT_EQ(verdict_of(at_least(0.9, 0.91, 0.95)), Verdict::kHolds);
  EXPECT_EQ(verdict_of(at_least(0.9, 0.90, 0.95)), Verdict::kHolds);
  EXPECT_EQ(verdict_of(at_least(0.9, 0.89, 0.95)), Verdict::kOpen);
  EXPECT_EQ(verdict_of(at_least(0.9, 0.80, 0.90)), Verdict::kOpen);
  EXPECT_EQ(verdict_of(at_least(0.9, 0.80, 0.89)), Verdict::kFails);
  EXPECT_EQ(verdict_of(at_most(0.2, 0.05, 0.2)), Verdict::kHolds);
  EXPECT_EQ(verdict_of(at_most(0.2, 0.15, 0.25)), Verdict::kOpen);
  EXPECT_EQ(verdict_of(at_most(0.2, 0.21, 0.25)), Verdict::kFails);
}

TEST(Verdict, WithoutAnIntervalNothingIsDecided) {
  const double infinity = std::numeric_limits<double>::infinity();
  Check check = at_least(0.5, -infinity, infinity);
  check.measured.mean = 1;
  check.measured.count = 1;
  EXPECT_EQ(verdict_of(check), Verdict::kOpen);
  EXPECT_NE(sentence_of(check).find("no interval"), std::string::npos) << sentence_of(check);
  check = at_least(0.5, 0.6, 0.7);
  check.measured.mean = std::nan("");
  EXPECT_EQ(verdict_of(check), Verdict::kOpen);
}

TEST(Verdict, AllChecksMustHoldAndOneIsEnoughToRefute) {
  EXPECT_EQ(judge({at_least(0.9, 0.95, 1), at_least(0.9, 0.92, 1)}), Verdict::kHolds);
  EXPECT_EQ(judge({at_least(0.9, 0.95, 1), at_least(0.9, 0.8, 1)}), Verdict::kOpen);
  EXPECT_EQ(judge({at_least(0.9, 0.8, 1), at_least(0.9, 0.1, 0.2)}), Verdict::kFails);
  EXPECT_EQ(judge({}), Verdict::kOpen);
}

TEST(Verdict, AControlThatDoesNotFailLeavesTheClaimOpen) {
  const Check good = at_least(0.9, 0.95, 1), bad = at_least(0.9, 0.1, 0.2);
  EXPECT_EQ(judge({good, at_most(0.2, 0.05, 0.1, true)}), Verdict::kHolds);
  EXPECT_EQ(judge({bad, at_most(0.2, 0.05, 0.1, true)}), Verdict::kFails);
  for (const Check& check : {good, bad}) {
    EXPECT_EQ(judge({check, at_most(0.2, 0.9, 1, true)}), Verdict::kOpen);
    EXPECT_EQ(judge({check, at_most(0.2, 0.1, 0.3, true)}), Verdict::kOpen);
  }
}

TEST(Verdict, TheSentenceStatesThresholdAndInterval) {
  EXPECT_EQ(sentence_of(at_least(0.95, 0.97, 0.99)),
            "accuracy: 0.98 (95% interval 0.97 to 0.99 over 3 seeds), expected at least 0.95: HOLDS");
}

}  // namespace
}  // namespace pmnet
