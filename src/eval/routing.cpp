#include "eval/routing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pmnet {

void LevelRouting::add(int64_t group) {
  tokens_.at(static_cast<size_t>(group)) += 1;
  if (last_) {
    pairs_ += 1;
    changes_ += *last_ != group ? 1 : 0;
  }
  last_ = group;
}

int64_t LevelRouting::total() const { return std::accumulate(tokens_.begin(), tokens_.end(), int64_t{0}); }

int64_t LevelRouting::used() const {
  return std::count_if(tokens_.begin(), tokens_.end(), [](int64_t count) { return count > 0; });
}

double LevelRouting::entropy() const {
  const auto all = static_cast<double>(total());
  double bits = 0;
  for (const int64_t count : tokens_)
    if (count > 0) bits -= static_cast<double>(count) / all * std::log2(static_cast<double>(count) / all);
  return bits;
}

double LevelRouting::largest_share() const {
  const int64_t all = total();
  if (all == 0) return 0;
  return static_cast<double>(*std::max_element(tokens_.begin(), tokens_.end())) / static_cast<double>(all);
}

double LevelRouting::change_rate() const {
  return pairs_ > 0 ? static_cast<double>(changes_) / static_cast<double>(pairs_) : 0;
}

void RoutingStatistics::add(const Trace& trace) {
  for (size_t level = 0; level < trace.routes.size(); ++level) {
    const int64_t slots = trace.route_weights[level].size(-1);
    if (levels_.size() <= level) levels_.emplace_back(trace.num_groups[level] * slots);
    const Tensor routes = trace.routes[level].flatten().to(at::kCPU).contiguous();
    const int64_t* route = routes.const_data_ptr<int64_t>();
    for (int64_t t = 0; t < routes.numel(); ++t) levels_[level].add(route[t]);
  }
}

void RoutingStatistics::next_text() {
  for (LevelRouting& level : levels_) level.next_text();
}

}  // namespace pmnet
