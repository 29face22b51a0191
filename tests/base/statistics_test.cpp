#include "base/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace pmnet {
namespace {

// Published tables of the two distributions.
TEST(Statistics, QuantilesAgreeWithTheTables) {
  EXPECT_NEAR(student_quantile(0.975, 1), 12.706, 5e-4);
  EXPECT_NEAR(student_quantile(0.975, 2), 4.303, 5e-4);
  EXPECT_NEAR(student_quantile(0.95, 10), 1.812, 5e-4);
  EXPECT_NEAR(student_quantile(0.975, 1000), 1.962, 5e-4);
  EXPECT_NEAR(student_quantile(0.025, 5), -2.571, 5e-4);
  EXPECT_NEAR(normal_quantile(0.975), 1.95996, 5e-6);
  EXPECT_NEAR(normal_quantile(0.1), -1.28155, 5e-6);
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-9);
}

TEST(Statistics, MeanIntervalIsTheTextbookOne) {
  const std::vector<double> values = {1, 2, 3, 4};
  const Interval interval = mean_interval(values);
  const double half = 3.18245 * std::sqrt(5.0 / 3.0) / 2.0;
  EXPECT_DOUBLE_EQ(interval.mean, 2.5);
  EXPECT_NEAR(interval.low, 2.5 - half, 1e-4);
  EXPECT_NEAR(interval.high, 2.5 + half, 1e-4);
  EXPECT_EQ(interval.count, 4);
}

TEST(Statistics, OneValueHasNoBoundsAndNoneHasNoMean) {
  const Interval one = mean_interval(std::vector<double>{0.5});
  EXPECT_EQ(one.mean, 0.5);
  EXPECT_TRUE(std::isinf(one.low) && std::isinf(one.high));
  EXPECT_TRUE(std::isnan(mean_interval({}).mean));
}

// Wilson's interval of 8 out of 10, and of everything, which must not be a point.
TEST(Statistics, ShareIntervalIsWilsons) {
  const Interval most = share_interval(8, 10);
  EXPECT_DOUBLE_EQ(most.mean, 0.8);
  EXPECT_NEAR(most.low, 0.4902, 5e-5);
  EXPECT_NEAR(most.high, 0.9433, 5e-5);
  const Interval all = share_interval(100, 100);
  EXPECT_NEAR(all.low, 0.9630, 5e-5);
  EXPECT_DOUBLE_EQ(all.high, 1);
  EXPECT_EQ(share_interval(0, 0).low, 0);
}

TEST(Median, IsTheMiddleOne) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

}  // namespace
}  // namespace pmnet
