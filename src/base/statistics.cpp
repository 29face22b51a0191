#include "base/statistics.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace pmnet {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check_probability(double probability) {
  if (!(probability > 0 && probability < 1)) throw std::logic_error("quantile: the probability is not inside (0, 1)");
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 == 1 ? *middle : std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

double student_quantile(double probability, double degrees_of_freedom) {
  check_probability(probability);
  return boost::math::quantile(boost::math::students_t(degrees_of_freedom), probability);
}

double normal_quantile(double probability) {
  check_probability(probability);
  return boost::math::quantile(boost::math::normal(), probability);
}

Interval mean_interval(std::span<const double> values, double level) {
  Interval interval{std::numeric_limits<double>::quiet_NaN(), -kInfinity, kInfinity, std::ssize(values)};
  if (values.empty()) return interval;
  const double count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  interval.mean = sum / count;
  if (values.size() < 2) return interval;
  for (const double value : values) squares += (value - interval.mean) * (value - interval.mean);
  const double error = std::sqrt(squares / (count - 1) / count);
  const double half = student_quantile(0.5 + level / 2, count - 1) * error;
  interval.low = interval.mean - half;
  interval.high = interval.mean + half;
  return interval;
}

Interval share_interval(int64_t successes, int64_t trials, double level) {
  if (trials <= 0) return {std::numeric_limits<double>::quiet_NaN(), 0, 1, 0};
  const double n = static_cast<double>(trials), share = static_cast<double>(successes) / n;
  const double z = normal_quantile(0.5 + level / 2), z2 = z * z;
  const double centre = (share + z2 / (2 * n)) / (1 + z2 / n);
  const double half = z / (1 + z2 / n) * std::sqrt(share * (1 - share) / n + z2 / (4 * n * n));
  return {share, std::max(0.0, centre - half), std::min(1.0, centre + half), trials};
}

}  // namespace pmnet
