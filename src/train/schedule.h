// Learning-rate schedules: a linear warm-up, then one of three shapes.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "config/train_config.h"

namespace pmnet {

struct Schedule {
  ScheduleShape shape = ScheduleShape::kCosine;
  double peak = 1e-3;
  double min_ratio = 0.1;
  double decay_fraction = 0.2;
  int64_t warmup = 0;
  int64_t steps = 1;  // of the whole run

  // `step` counts from 0; the last warm-up step and the one after it are at the peak.
  double learning_rate(int64_t step) const {
    if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
    const double length = static_cast<double>(std::max<int64_t>(1, steps - warmup));
    const double done = std::min(1.0, static_cast<double>(step - warmup) / length);
    switch (shape) {
      case ScheduleShape::kConstant:
        return peak;
      case ScheduleShape::kWarmupStableDecay: {
        const double decay = std::max(1.0, decay_fraction * static_cast<double>(steps));
        const double left = static_cast<double>(std::max<int64_t>(0, steps - step));
        return peak * (min_ratio + (1 - min_ratio) * std::min(1.0, left / decay));
      }
      case ScheduleShape::kCosine:
        break;
    }
    return peak * (min_ratio + (1 - min_ratio) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
  }
};

}  // namespace pmnet
