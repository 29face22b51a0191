// Integer weights from the order they are stored in, row by row, to the one matvec reads them in, and back.
//
// A panel holds 2 L rows (L: 32-bit integers in a register), so that a register of sums belongs to L rows and no sum is
// taken over the lanes of a register. It is a sequence of registers with two columns of all rows, those of a row beside
// each other, for instructions that add the products of neighbours. Zeros stand in for the rows and the columns that
// are missing in the last ones. Bf16 weights are 16-bit integers here (kernels/fixed_point.h).
#pragma once
#include <cstdint>

#include "kernels/matvec.h"

namespace pmnet::kernels {

int64_t packed_bytes(WeightType type, int64_t rows, int64_t cols);

// Integers of 16 (kBF16) or 8 bits, stored [rows, cols].
void pack_rows(WeightType type, int64_t rows, int64_t cols, const void* stored, void* packed);

// Rows [begin, end) of a matrix of such weights, scaled, [end - begin, cols].
void unpack_rows(const WeightMatrix& w, int64_t begin, int64_t end, float* out);

}  // namespace pmnet::kernels
