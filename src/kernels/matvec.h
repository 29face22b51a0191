// Products of a weight matrix with a few vectors, for decoding: bound by how fast the weights can be read, so each
// weight is read once, in the type it is stored in, and used for all vectors.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

enum class WeightType { kF32, kBF16, kInt8 };

// [rows, cols], row-major. Int8 weights are scaled by one number per row.
struct WeightMatrix {
  WeightType type;
  const void* data;
  const float* scales;  // [rows], int8 only
  int64_t cols;
};

// y[v, row] = sum_c w[row, c] x[v, c] + bias[row] for rows [begin, end) and all vectors. bias may be null.
void matvec(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, int64_t num_vectors, const float* x,
            int64_t x_stride, float* y, int64_t y_stride);

// Rows [begin, end) as float32, [end - begin, cols].
void unpack_rows(const WeightMatrix& w, int64_t begin, int64_t end, float* out);

}  // namespace pmnet::kernels
