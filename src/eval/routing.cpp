#include "eval/routing.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numeric>

namespace pmnet {

int64_t LevelUse::total() const { return std::accumulate(tokens.begin(), tokens.end(), int64_t{0}); }

double LevelUse::entropy() const {
  const auto all = static_cast<double>(total());
  double bits = 0;
  for (const int64_t count : tokens)
    if (count > 0) bits -= static_cast<double>(count) / all * std::log2(static_cast<double>(count) / all);
  return bits;
}

void RoutingUse::add(const Trace& trace) {
  const bool goes_on = !last_.empty();
  levels_.resize(trace.routes.size());
  last_.resize(trace.routes.size());
  for (size_t level = 0; level < levels_.size(); ++level) {
    LevelUse& use = levels_[level];
    const int64_t slots = trace.route_weights[level].size(-1);
    use.tokens.resize(static_cast<size_t>(trace.num_groups[level] * slots), 0);
    const Tensor routes = trace.routes[level].flatten().to(at::kCPU).contiguous();
    const int64_t* route = routes.const_data_ptr<int64_t>();
    for (int64_t t = 0; t < routes.numel(); ++t) {
      use.tokens[static_cast<size_t>(route[t])] += 1;
      if (t == 0 && !goes_on) continue;
      use.pairs += 1;
      use.changes += route[t] != (t > 0 ? route[t - 1] : last_[level]) ? 1 : 0;
    }
    if (routes.numel() > 0) last_[level] = route[routes.numel() - 1];
  }
}

}  // namespace pmnet
