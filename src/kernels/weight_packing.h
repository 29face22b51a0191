// Weights from the order they are stored in to the one matvec reads them in, and back.
#pragma once
#include <cstdint>

#include "kernels/matvec.h"

namespace pmnet::kernels {

// Bf16 rows as matvec reads them, two at a time as one stretch of memory: a register of the first row, then one of the
// second. A register of bf16 numbers is two of floats, one shift and one mask away: those in even places and those in
// odd ones. So of the 2 L columns in it (L: floats in a register) column i lies beside column L + i. Columns that fill
// no register follow, those of the first row, then those of the second. `packed` has room for an even number of rows.
void pack_bf16_rows(int64_t rows, int64_t cols, const uint16_t* stored, uint16_t* packed);

// Rows [begin, end) of a matrix as float32, [end - begin, cols].
void unpack_rows(const WeightMatrix& w, int64_t begin, int64_t end, float* out);

}  // namespace pmnet::kernels
