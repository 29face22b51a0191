// Bf16 and int8 weights from the order they are stored in, row by row, to the one matvec reads them in, and back.
//
// A panel holds 2 L rows (L: floats in a register), so that a register of sums belongs to L rows and no sum is taken
// over the lanes of a register. It is a sequence of registers, each with all rows of one column of bf16 weights, or of
// two columns of int8 weights:
//   bf16  row i beside row L + i: one shift and one mask make two registers of floats of it;
//   int8  the two columns of a row beside each other, for instructions that add the products of neighbours.
// Zeros stand in for the rows and the columns that are missing in the last ones.
#pragma once
#include <cstdint>

#include "kernels/matvec.h"

namespace pmnet::kernels {

int64_t packed_bytes(WeightType type, int64_t rows, int64_t cols);

// Bf16 or int8 weights, stored [rows, cols].
void pack_rows(WeightType type, int64_t rows, int64_t cols, const void* stored, void* packed);

// Rows [begin, end) of a matrix of such weights as float32, [end - begin, cols].
void unpack_rows(const WeightMatrix& w, int64_t begin, int64_t end, float* out);

}  // namespace pmnet::kernels
