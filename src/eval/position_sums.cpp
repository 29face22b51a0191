#include "eval/position_sums.h"

#include <algorithm>
#include <bit>

namespace pmnet {

namespace {

std::vector<double> merged(const std::vector<double>& sums, size_t factor) {
  std::vector<double> larger((sums.size() + factor - 1) / factor, 0.0);
  for (size_t i = 0; i < sums.size(); ++i) larger[i / factor] += sums[i];
  return larger;
}

void join(ThroughputPoint& to, const ThroughputPoint& point) {
  to.fastest = to.bytes == 0 ? point.fastest : std::min(to.fastest, point.fastest);
  to.bytes += point.bytes;
  to.seconds += point.seconds;
  to.state_bytes = std::max(to.state_bytes, point.state_bytes);
  to.resident_bytes = std::max(to.resident_bytes, point.resident_bytes);
}

}  // namespace

PositionSums::PositionSums(int64_t count, int64_t window, std::vector<double> windows, std::vector<double> octaves)
    : count_(count), window_(window), windows_(std::move(windows)), octaves_(std::move(octaves)) {
  for (const double bits : octaves_) bits_ += bits;
}

void PositionSums::add(std::span<const double> bits_of_the_next) {
  for (const double bits : bits_of_the_next) {
    ++count_;
    bits_ += bits;
    const auto octave = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(count_)) - 1);
    if (octaves_.size() <= octave) octaves_.resize(octave + 1, 0.0);
    octaves_[octave] += bits;
    auto window = static_cast<size_t>((count_ - 1) / window_);
    if (window >= kMostWindows) {
      windows_ = merged(windows_, 2);
      window_ *= 2;
      window /= 2;
    }
    if (windows_.size() <= window) windows_.resize(window + 1, 0.0);
    windows_[window] += bits;
  }
}

std::vector<double> PositionSums::windows(int64_t window) const {
  return merged(windows_, static_cast<size_t>(window / window_));
}

void ThroughputCurve::add(const ThroughputPoint& point) {
  while (static_cast<size_t>(point.first / width_) >= PositionSums::kMostWindows) {
    width_ *= 2;
    std::vector<ThroughputPoint> wider;
    for (const ThroughputPoint& old : points_) {
      const int64_t first = old.first / width_ * width_;
      if (wider.empty() || wider.back().first != first) wider.push_back({.first = first});
      join(wider.back(), old);
    }
    points_ = std::move(wider);
  }
  const int64_t first = point.first / width_ * width_;
  auto place = std::lower_bound(points_.begin(), points_.end(), first,
                                [](const ThroughputPoint& old, int64_t wanted) { return old.first < wanted; });
  if (place == points_.end() || place->first != first) place = points_.insert(place, {.first = first});
  join(*place, point);
}

}  // namespace pmnet
