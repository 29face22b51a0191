// How the rows of a matrix are divided into ranges for threads.
//
// A core that waits for DRAM gets more bandwidth from several sequential streams than from one, so a bandwidth-bound
// product reads kStreams rows (or panels) concurrently, far apart. Consecutive ranges of a group continue in the same
// streams, which keeps the hardware prefetcher locked on:
//
//   group 0, stream_stride = 3 ranges             rest, one stream
//   | r0 r1 r2 | r0 r1 r2 | r0 r1 r2 | r0 r1 r2 | | r3 | r4 |
//     stream 0   stream 1   stream 2   stream 3
#pragma once
#include <cstdint>

#include "kernels/gemv/format.h"

namespace pmnet::kernels {

constexpr int64_t kStreams = 4;

// Up to this many operands a product is bound by bandwidth and uses the streams; beyond, it is bound by multiply-adds,
// and register tiles of one row or panel by several operands are faster. int8 weights have to be widened once per
// operand in a stream, which pays for one operand only. Measured on AVX2.
constexpr int64_t max_streamed_operands(WeightType type) {
  return type == WeightType::kF32 ? 4 : type == WeightType::kBF16 ? 5 : 1;
}

// Rows [begin, begin + count); unless stream_stride is 0, also the ranges of the same length at begin + stream_stride,
// begin + 2 stream_stride, ..., one for each stream.
struct RowRange {
  int64_t begin, count, stream_stride;
};

struct RowPartition {
  int64_t num_rows;
  int64_t range_rows;            // per stream
  int64_t groups, group_ranges;  // of ranges with streams; rows that fill no group come last, in single ranges

  int64_t size() const;  // number of ranges
  RowRange range(int64_t i) const;

 private:
  int64_t streamed_rows() const { return groups * group_ranges * kStreams * range_rows; }
};

// Ranges of about 32 KB of weights: long enough for sequential reads, short enough to balance threads.
RowPartition partition_rows(const WeightMatrix& w, int64_t num_rows, int64_t num_operands, int64_t num_threads);

}  // namespace pmnet::kernels
