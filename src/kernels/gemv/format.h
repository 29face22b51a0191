// Weight types and the matrix that the GEMV kernels read. The README of this folder draws the panel layout.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

enum class WeightType { kF32, kBF16, kInt8 };

// A weight matrix [rows, cols]. float32 is row-major. bf16 and int8 are panels of int16 and int8 (gemv/pack.h); row r
// stands for scales[r] times its integers. The matrix may be a range of the rows at `data`: row 0 of the matrix is row
// `first_row` there.
struct WeightMatrix {
  WeightType type;
  const void* data;
  int64_t first_row;
  const float* scales;  // [rows], counted from first_row; null for float32
  int64_t cols;
};

}  // namespace pmnet::kernels
