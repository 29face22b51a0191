// Weights from the order they are stored in to the one matvec reads them in, and back.
#pragma once
#include <cstdint>

#include "kernels/matvec.h"

namespace pmnet::kernels {

// Bf16 rows as matvec reads them. A register of them is two registers of floats, one shift and one mask away: its
// numbers in even places and those in odd ones. So of every 2 L columns (L: floats in a register) column i lies beside
// column L + i; the last columns, which fill no register, stay where they are.
void pair_columns(int64_t rows, int64_t cols, const uint16_t* stored, uint16_t* paired);

// Rows [begin, end) of a matrix as float32, [end - begin, cols].
void unpack_rows(const WeightMatrix& w, int64_t begin, int64_t end, float* out);

}  // namespace pmnet::kernels
