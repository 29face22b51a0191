#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace pmnet {

// A measured value and where the true one is, at some level of confidence. Fewer than two values give no bounds: they
// are minus and plus infinity.
struct Interval {
  double mean = 0;
  double low = 0, high = 0;
  int64_t count = 0;  // independent values behind it
};

// The mean of independent values such as seeds or documents, with Student's t.
Interval mean_interval(std::span<const double> values, double level = 0.95);
// A share of independent trials, with Wilson's interval; it stays inside [0, 1] and is right near its ends.
Interval share_interval(int64_t successes, int64_t trials, double level = 0.95);

// The middle one of the values, of an even number of them the mean of the two in the middle. There is at least one.
double median(std::vector<double> values);

// The value that Student's t with so many degrees of freedom stays below with this probability.
double student_quantile(double probability, double degrees_of_freedom);
double normal_quantile(double probability);

}  // namespace pmnet
