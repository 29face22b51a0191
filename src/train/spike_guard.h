#pragma once
#include <cmath>
#include <cstdint>
#include <deque>

namespace pmnet {

// Tells when a loss or a gradient norm stands out from the recent past. Off until the window is full.
struct SpikeGuard {
  std::deque<double> losses, norms;

  static double deviations(const std::deque<double>& past, double value) {
    double mean = 0, squares = 0;
    for (const double x : past) mean += x / static_cast<double>(past.size());
    for (const double x : past) squares += (x - mean) * (x - mean) / static_cast<double>(past.size());
    return squares > 0 ? (value - mean) / std::sqrt(squares) : 0;
  }

  bool is_spike(double loss, double norm, double limit, int64_t window) const {
    if (limit <= 0 || static_cast<int64_t>(losses.size()) < window) return false;
    return deviations(losses, loss) > limit || deviations(norms, norm) > limit;
  }

  void add(double loss, double norm, int64_t window) {
    losses.push_back(loss);
    norms.push_back(norm);
    while (static_cast<int64_t>(losses.size()) > window) {
      losses.pop_front();
      norms.pop_front();
    }
  }
};

}  // namespace pmnet
