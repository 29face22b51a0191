#include "eval/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pmnet {

namespace {

// One document along a curve: what it cost at each point, and how many bytes that were.
struct Profile {
  std::vector<double> bits, counts;
};

struct Stretch {
  int64_t first, last;
};

int64_t count_between(int64_t count, const Stretch& stretch) {
  return std::clamp<int64_t>(count - stretch.first + 1, 0, stretch.last - stretch.first + 1);
}

int64_t common_window(const Evaluation& evaluation, size_t candidate) {
  int64_t window = 1;
  for (const DocumentScore& document : evaluation.documents)
    window = std::max(window, document.scores[candidate].window());
  return window;
}

int64_t longest_of(const Evaluation& evaluation, size_t candidate) {
  int64_t longest = 0;
  for (const DocumentScore& document : evaluation.documents)
    longest = std::max(longest, document.scores[candidate].count());
  return longest;
}

std::vector<Stretch> stretches_of(const Evaluation& evaluation, CurveKind kind, size_t candidate, int64_t window) {
  const int64_t longest = longest_of(evaluation, candidate);
  std::vector<Stretch> stretches;
  int64_t first = 1;
  while (first <= longest) {
    int64_t next = kind == CurveKind::kOctaves ? 2 * first : first + window;
    if (kind == CurveKind::kLogWindows) {
      const auto wanted = static_cast<int64_t>(static_cast<double>(first - 1) * std::pow(2.0, 0.25));
      next = std::max(next, 1 + wanted / window * window);
    }
    stretches.push_back({first, next - 1});
    first = next;
  }
  return stretches;
}

std::vector<double> bits_along(const PositionSums& sums, CurveKind kind, const std::vector<Stretch>& stretches,
                               int64_t window) {
  std::vector<double> bits(stretches.size(), 0.0);
  if (kind == CurveKind::kOctaves) {
    std::copy_n(sums.octaves().begin(), std::min(bits.size(), sums.octaves().size()), bits.begin());
    return bits;
  }
  const std::vector<double> windows = sums.windows(window);
  for (size_t s = 0, w = 0; s < stretches.size(); ++s)
    for (; w < windows.size() && static_cast<int64_t>(w) * window < stretches[s].last; ++w) bits[s] += windows[w];
  return bits;
}

std::vector<Profile> profiles_of(const Evaluation& evaluation, CurveKind kind, const std::vector<Stretch>& stretches,
                                 int64_t window, size_t candidate, std::optional<size_t> base) {
  std::vector<Profile> profiles;
  for (const DocumentScore& document : evaluation.documents) {
    const PositionSums& sums = document.scores[candidate];
    Profile profile{bits_along(sums, kind, stretches, window), {}};
    for (const Stretch& stretch : stretches)
      profile.counts.push_back(static_cast<double>(count_between(sums.count(), stretch)));
    if (base) {
      const PositionSums& other = document.scores[*base];
      const std::vector<double> bits = bits_along(other, kind, stretches, window);
      for (size_t s = 0; s < stretches.size(); ++s) {
        profile.bits[s] -= bits[s];
        if (count_between(other.count(), stretches[s]) != count_between(sums.count(), stretches[s]))
          profile.bits[s] = profile.counts[s] = 0;
      }
    }
    if (kind == CurveKind::kCumulative)
      for (size_t s = 1; s < stretches.size(); ++s) {
        profile.bits[s] += profile.bits[s - 1];
        profile.counts[s] += profile.counts[s - 1];
      }
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

// Per document.
struct Totals {
  std::vector<double> bits, counts;
};

Totals totals_between(const Evaluation& evaluation, const Positions& positions, size_t candidate,
                      std::optional<size_t> base) {
  int64_t window = common_window(evaluation, candidate);
  if (base) window = std::max(window, common_window(evaluation, *base));
  const std::vector<Stretch> stretches = stretches_of(evaluation, CurveKind::kWindows, candidate, window);
  Totals totals;
  for (const Profile& profile : profiles_of(evaluation, CurveKind::kWindows, stretches, window, candidate, base)) {
    double& bits = totals.bits.emplace_back(0);
    double& count = totals.counts.emplace_back(0);
    for (size_t s = 0; s < stretches.size(); ++s) {
      if (stretches[s].first < positions.first || (positions.last > 0 && stretches[s].last > positions.last)) continue;
      bits += profile.bits[s];
      count += profile.counts[s];
    }
  }
  return totals;
}

}  // namespace

Interval ratio_interval(std::span<const double> amounts, std::span<const double> counts, double level) {
  double amount = 0, count = 0;
  int64_t documents = 0;
  for (size_t d = 0; d < amounts.size(); ++d) {
    amount += amounts[d];
    count += counts[d];
    documents += counts[d] > 0 ? 1 : 0;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Interval interval{
      .mean = count > 0 ? amount / count : std::nan(""), .low = -kInfinity, .high = kInfinity, .count = documents};
  if (documents < 2) return interval;
  double squares = 0;
  for (size_t d = 0; d < amounts.size(); ++d)
    if (counts[d] > 0) squares += std::pow(amounts[d] - interval.mean * counts[d], 2);
  const auto n = static_cast<double>(documents);
  const double error = std::sqrt(squares * n / (n - 1)) / count;
  const double reach = error * student_quantile(0.5 + level / 2, n - 1);
  interval.low = interval.mean - reach;
  interval.high = interval.mean + reach;
  return interval;
}

Interval mean_bits(const Evaluation& evaluation, size_t candidate, std::optional<size_t> base) {
  if (base) return mean_bits_between(evaluation, {}, candidate, base);
  std::vector<double> bits, counts;
  for (const DocumentScore& document : evaluation.documents) {
    bits.push_back(document.scores[candidate].bits());
    counts.push_back(static_cast<double>(document.scores[candidate].count()));
  }
  return ratio_interval(bits, counts);
}

PositionCurve position_curve(const Evaluation& evaluation, CurveKind kind, size_t candidate,
                             std::optional<size_t> base) {
  int64_t window = common_window(evaluation, candidate);
  if (base) window = std::max(window, common_window(evaluation, *base));
  const std::vector<Stretch> stretches = stretches_of(evaluation, kind, candidate, window);
  const std::vector<Profile> profiles = profiles_of(evaluation, kind, stretches, window, candidate, base);
  PositionCurve curve;
  for (size_t s = 0; s < stretches.size(); ++s) {
    std::vector<double> bits, counts;
    PositionPoint point;
    point.first = kind == CurveKind::kCumulative ? 1 : stretches[s].first;
    point.last = std::min(stretches[s].last, longest_of(evaluation, candidate));
    for (const Profile& profile : profiles) {
      bits.push_back(profile.bits[s]);
      counts.push_back(profile.counts[s]);
      point.bytes += static_cast<int64_t>(profile.counts[s]);
    }
    if (point.bytes == 0) continue;
    point.bits_per_byte = ratio_interval(bits, counts);
    curve.push_back(point);
  }
  return curve;
}

std::vector<ExcessPoint> cumulative_excess(const Evaluation& evaluation, size_t candidate, size_t base) {
  const int64_t window = std::max(common_window(evaluation, candidate), common_window(evaluation, base));
  const std::vector<Stretch> stretches = stretches_of(evaluation, CurveKind::kWindows, candidate, window);
  const std::vector<Profile> profiles =
      profiles_of(evaluation, CurveKind::kCumulative, stretches, window, candidate, base);
  std::vector<ExcessPoint> points;
  for (size_t s = 0; s < stretches.size(); ++s) {
    ExcessPoint point{stretches[s].last, {}};
    for (const Profile& profile : profiles)
      if (profile.counts[s] == static_cast<double>(stretches[s].last)) point.bits.push_back(profile.bits[s]);
    if (!point.bits.empty()) points.push_back(std::move(point));
  }
  return points;
}

Interval mean_bits_between(const Evaluation& evaluation, const Positions& positions, size_t candidate,
                           std::optional<size_t> base) {
  const Totals totals = totals_between(evaluation, positions, candidate, base);
  return ratio_interval(totals.bits, totals.counts);
}

Interval change_between(const Evaluation& evaluation, size_t candidate, const Positions& from, const Positions& to) {
  const Totals before = totals_between(evaluation, from, candidate, std::nullopt);
  const Totals after = totals_between(evaluation, to, candidate, std::nullopt);
  std::vector<double> changes;
  for (size_t d = 0; d < before.bits.size(); ++d)
    if (before.counts[d] > 0 && after.counts[d] > 0)
      changes.push_back(after.bits[d] / after.counts[d] - before.bits[d] / before.counts[d]);
  return mean_interval(changes);
}

}  // namespace pmnet
