#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numbers>
#include <stdexcept>

namespace pmnet {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The regularised incomplete beta function I_x(a, b), by its continued fraction in the modified Lentz form.
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);  // where the fraction converges quickly
  constexpr double kTiny = 1e-300, kPrecision = 1e-15;
  constexpr int kMaxTerms = 10'000;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m < kMaxTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double factor = 1;
    for (const double term : {even, odd}) {
      d = 1 / away_from_zero(1 + term * d);
      c = away_from_zero(1 + term / c);
      factor = c * d;
      fraction *= factor;
    }
    if (std::abs(factor - 1) < kPrecision) break;
  }
  const double logarithm = std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  return std::exp(logarithm) * fraction / a;
}

double student_probability(double t, double degrees) {
  const double tail = 0.5 * incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
  return t > 0 ? 1 - tail : tail;
}

// Where a growing function of the positive numbers reaches the wanted value.
double solve_growing(const std::function<double(double)>& function, double wanted) {
  double low = 0, high = 1;
  while (function(high) < wanted && high < 1e12) high *= 2;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (function(middle) < wanted ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

void check_probability(double probability) {
  if (!(probability > 0 && probability < 1)) throw std::logic_error("quantile: the probability is not inside (0, 1)");
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double student_quantile(double probability, double degrees_of_freedom) {
  check_probability(probability);
  if (probability < 0.5) return -student_quantile(1 - probability, degrees_of_freedom);
  return solve_growing([&](double t) { return student_probability(t, degrees_of_freedom); }, probability);
}

double normal_quantile(double probability) {
  check_probability(probability);
  if (probability < 0.5) return -normal_quantile(1 - probability);
  return solve_growing([](double z) { return 1 - 0.5 * std::erfc(z / std::numbers::sqrt2); }, probability);
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
