#include "train/schedule.h"

#include <gtest/gtest.h>

#include "train/spike_guard.h"

namespace pmnet {
namespace {

TEST(Schedule, WarmsUpThenFallsAlongACosine) {
  const Schedule schedule{.peak = 2.0, .min_ratio = 0.1, .warmup = 4, .steps = 104};
  EXPECT_DOUBLE_EQ(schedule.learning_rate(0), 0.5);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(3), 2.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(4), 2.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(54), 1.1);  // half way between 2 and 0.2
  EXPECT_NEAR(schedule.learning_rate(103), 0.2, 1e-3);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(104), 0.2);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(10'000), 0.2);
  for (int64_t step = 4; step < 104; ++step) EXPECT_GT(schedule.learning_rate(step), schedule.learning_rate(step + 1));
}

TEST(Schedule, IsConstantWhenAsked) {
  const Schedule schedule{.shape = ScheduleShape::kConstant, .peak = 0.3, .warmup = 2, .steps = 10};
  EXPECT_DOUBLE_EQ(schedule.learning_rate(0), 0.15);
  for (int64_t step = 1; step < 20; ++step) EXPECT_DOUBLE_EQ(schedule.learning_rate(step), 0.3);
}

TEST(Schedule, WarmupStableDecayIsConstantUntilALinearDecay) {
  Schedule schedule{.shape = ScheduleShape::kWarmupStableDecay,
                    .peak = 2.0,
                    .min_ratio = 0.1,
                    .decay_fraction = 0.2,
                    .warmup = 4,
                    .steps = 100};
  EXPECT_DOUBLE_EQ(schedule.learning_rate(0), 0.5);
  for (const int64_t step : {4, 50, 80}) EXPECT_DOUBLE_EQ(schedule.learning_rate(step), 2.0) << step;
  EXPECT_DOUBLE_EQ(schedule.learning_rate(90), 1.1);  // half way between 2 and 0.2
  EXPECT_DOUBLE_EQ(schedule.learning_rate(100), 0.2);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1000), 0.2);
  schedule.steps = 200;  // prolonged: what was trained before the decay stays as it was
  for (const int64_t step : {4, 80, 160}) EXPECT_DOUBLE_EQ(schedule.learning_rate(step), 2.0) << step;
}

TEST(Schedule, SurvivesARunShorterThanItsWarmUp) {
  const Schedule schedule{.peak = 1, .min_ratio = 0, .warmup = 100, .steps = 10};
  EXPECT_DOUBLE_EQ(schedule.learning_rate(9), 0.1);
}

TEST(SpikeGuard, NeedsAFullWindowAndALimit) {
  SpikeGuard guard;
  for (int i = 0; i < 16; ++i) {
    EXPECT_FALSE(guard.is_spike(1e9, 1e9, 6, 16));
    guard.add(2 + 0.01 * (i % 3), 1, 16);
  }
  EXPECT_TRUE(guard.is_spike(3, 1, 6, 16));
  EXPECT_FALSE(guard.is_spike(3, 1, 0, 16));
  EXPECT_FALSE(guard.is_spike(2.02, 1, 6, 16));
  EXPECT_FALSE(guard.is_spike(-5, 1, 6, 16)) << "a loss that falls is no spike";
  guard.add(1, 1, 16);
  EXPECT_EQ(guard.losses.size(), 16u);
}

}  // namespace
}  // namespace pmnet
