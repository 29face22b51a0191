// How the recurrent ops spread [B,T,E] over threads: tasks are (row, slab of channels), the same slabs whatever the
// number of threads, so no bit depends on it.
#pragma once
#include <algorithm>

#include "ops/common.h"

namespace pmnet::ops {

constexpr int64_t kSlabChannels = 64;

inline int64_t num_slabs(int64_t channels) { return (channels + kSlabChannels - 1) / kSlabChannels; }

// body(row, slab, begin, end) for every slab; `work` is about how many numbers one slab computes.
template <typename Body>
void for_each_slab(int64_t rows, int64_t channels, int64_t work, const Body& body) {
  constexpr int64_t kWorthATask = 8192;
  const int64_t slabs = num_slabs(channels), grain = std::max<int64_t>(kWorthATask / std::max<int64_t>(work, 1), 1);
  at::parallel_for(0, rows * slabs, grain, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t slab = task % slabs, begin = slab * kSlabChannels;
      body(task / slabs, slab, begin, std::min(begin + kSlabChannels, channels));
    }
  });
}

// x [B,T,E] itself if its rows follow each other at one distance, however far apart (one half of a product's output is
// such a view), else a contiguous copy. Its steps are x.stride(1) floats apart and its rows row_stride(x).
inline Tensor evenly_spaced(const Tensor& x) {
  const bool even = x.stride(2) == 1 && (x.size(0) == 1 || x.stride(0) == x.size(1) * x.stride(1));
  return even ? x : x.contiguous();
}
inline int64_t row_stride(const Tensor& x) { return x.size(1) * x.stride(1); }

}  // namespace pmnet::ops
