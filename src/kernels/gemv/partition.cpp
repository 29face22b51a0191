#include "kernels/gemv/partition.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemv/partition.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/gemv/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

RowPartition PartitionRows(const WeightMatrix& w, int64_t num_rows, int64_t num_operands, int64_t num_threads) {
  constexpr int64_t kRangeBytes = 32768;
  const bool row_major = w.type == WeightType::kF32, bf16 = w.type == WeightType::kBF16;
  const bool panels_start_here = row_major || w.first_row % PanelRows() == 0;
  const bool streams = num_operands <= max_streamed_operands(w.type) && panels_start_here;
  // The indivisible unit: a panel, a row, or the pair of rows that a float32 tile multiplies at once.
  const int64_t unit = !row_major ? PanelRows() : streams ? 1 : 2;
  const int64_t unit_bytes = row_major ? unit * w.cols * 4 : PanelWeights(w.cols) * (bf16 ? 2 : 1);
  const int64_t groups = streams ? std::min(num_threads, num_rows / (kStreams * unit)) : 0;
  if (groups == 0) return {num_rows, std::max<int64_t>(kRangeBytes / unit_bytes, 1) * unit, 0, 0};
  const int64_t stream_units = num_rows / (groups * kStreams * unit);
  const int64_t range_units = std::clamp<int64_t>(kRangeBytes / (kStreams * unit_bytes), 1, stream_units);
  return {num_rows, range_units * unit, groups, stream_units / range_units};
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(PartitionRows);

RowPartition partition_rows(const WeightMatrix& w, int64_t num_rows, int64_t num_operands, int64_t num_threads) {
  return HWY_DYNAMIC_DISPATCH(PartitionRows)(w, num_rows, num_operands, num_threads);
}

int64_t RowPartition::size() const {
  return groups * group_ranges + (num_rows - streamed_rows() + range_rows - 1) / range_rows;
}

RowRange RowPartition::range(int64_t i) const {
  if (i < groups * group_ranges) {
    const int64_t stride = group_ranges * range_rows;
    return {i / group_ranges * kStreams * stride + i % group_ranges * range_rows, range_rows, stride};
  }
  const int64_t begin = streamed_rows() + (i - groups * group_ranges) * range_rows;
  return {begin, std::min(range_rows, num_rows - begin), 0};
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
