#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace pmnet {

// Bits of one document by position, in memory that does not grow with its length. Positions count from 1.
class PositionSums {
 public:
  static constexpr int64_t kFirstWindow = 64;
  static constexpr size_t kMostWindows = 2048;

  // `window`: bytes per window of the curve; it doubles when there are too many of them.
  explicit PositionSums(int64_t window = kFirstWindow) : window_(window) {}

  // As it was saved.
  PositionSums(int64_t count, int64_t window, std::vector<double> windows, std::vector<double> octaves);

  void add(std::span<const double> bits_of_the_next);

  int64_t count() const { return count_; }
  double bits() const { return bits_; }
  int64_t window() const { return window_; }

  // Window i: positions i*window + 1 .. (i+1)*window; `window` must be a multiple of window().
  std::vector<double> windows(int64_t window) const;
  // Octave k: positions 2^k .. 2^(k+1)-1.
  const std::vector<double>& octaves() const { return octaves_; }

 private:
  int64_t count_ = 0;
  double bits_ = 0;
  int64_t window_;
  std::vector<double> windows_, octaves_;
};

// What reading costs by position: time, the state that streams carry, the memory of the process.
struct ThroughputPoint {
  int64_t first = 0;   // bytes before the stretch; it ends where the next begins
  int64_t bytes = 0;   // scored in it, all documents together
  double seconds = 0;  // for them
  double fastest = 0;  // seconds per byte of the fastest pass: what is left when other programs do not disturb
  int64_t state_bytes = 0, resident_bytes = 0;  // the most there were
};
class ThroughputCurve {
 public:
  explicit ThroughputCurve(int64_t width) : width_(width) {}
  // One pass that began at `point.first`.
  void add(const ThroughputPoint& point);
  const std::vector<ThroughputPoint>& points() const { return points_; }
  int64_t width() const { return width_; }

 private:
  int64_t width_;  // bytes of a stretch; doubles when there are too many
  std::vector<ThroughputPoint> points_;
};

}  // namespace pmnet
