// GEMV for decoding: a weight matrix by up to a few dozen operands (input vectors), each weight read once in the type
// it is stored in. With one operand the product is bound by memory bandwidth; from a handful on (max_streamed_operands
// of gemv/partition.h) by multiply-adds. Beyond a few dozen a blocked GEMM is faster.
//
//   Operands x;  bind_operands(w, n, data, stride, x);
//   for v < n: quantize_operand(w, v, x);                      // integer weights only; any thread, each v once
//   for each range of partition_rows(w, rows, n, threads): gemv(w, range, bias, x, y, y_stride);   // any thread
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/gemv/format.h"
#include "kernels/gemv/partition.h"
#include "kernels/scratch.h"

namespace pmnet::kernels {

// The operands x [count, cols] of one product, prepared once for all row ranges.
struct Operands {
  int64_t count, stride;  // stride: floats between two operands
  const float* data;
  // Integer weights only: operands as int16 [count, cols rounded up to whole pairs], to be multiplied by scales
  // [count].
  Scratch<int16_t> quantized;
  std::vector<float> scales;
};

// Points `out` at x and sizes its buffers, which are reused if `out` served an earlier product.
void bind_operands(const WeightMatrix& w, int64_t count, const float* x, int64_t x_stride, Operands& out);

// Quantizes operand `index` to int16. Call once per operand before gemv() with integer weights.
void quantize_operand(const WeightMatrix& w, int64_t index, Operands& out);

// y[v, row] = sum_c w[row, c] x[v, c] + bias[row] for the rows of a range and all operands. bias may be null.
void gemv(const WeightMatrix& w, const RowRange& rows, const float* bias, const Operands& x, float* y,
          int64_t y_stride);

}  // namespace pmnet::kernels
