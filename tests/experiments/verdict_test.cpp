#include "experiments/framework/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace pmnet {
namespace {

Check at_least(double threshold, double low, double high) {
  return pmnet::at_least(threshold, "accuracy", {(low + high) / 2, low, high, 3});
}
Check at_most(double threshold, double low, double high) {
  return pmnet::at_most(threshold, "accuracy", {(low + high) / 2, low, high, 3});
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

TEST(Verdict, AControlThatDoesNotBehaveLeavesTheClaimOpen) {
  const Check good = at_least(0.9, 0.95, 1), bad = at_least(0.9, 0.1, 0.2);
  EXPECT_EQ(judge({good, control(at_most(0.2, 0.05, 0.1))}), Verdict::kHolds);
  EXPECT_EQ(judge({bad, control(at_most(0.2, 0.05, 0.1))}), Verdict::kFails);
  for (const Check& check : {good, bad}) {
    EXPECT_EQ(judge({check, control(at_most(0.2, 0.9, 1))}), Verdict::kOpen);
    EXPECT_EQ(judge({check, control(at_most(0.2, 0.1, 0.3))}), Verdict::kOpen);
  }
}

TEST(Verdict, TheSentenceStatesThresholdAndInterval) {
  EXPECT_EQ(sentence_of(at_least(0.95, 0.97, 0.99)),
            "accuracy: 0.98 (95% interval 0.97 to 0.99 over 3 seeds), expected at least 0.95: holds");
  EXPECT_EQ(sentence_of(control(at_most(0.16, 0.04, 0.08))),
            "control: accuracy: 0.06 (95% interval 0.04 to 0.08 over 3 seeds), required at most 0.16: behaved as "
            "required");
  EXPECT_NE(sentence_of(control(at_most(0.16, 0.5, 0.6))).find("did not behave as required"), std::string::npos);
}

}  // namespace
}  // namespace pmnet
