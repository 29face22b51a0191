// Packing: integer weights from row-major order to the panels that gemv() reads, and back. See README.md for a drawing.
//
// The order depends on the register width of the instruction set in use, so packed weights are never written to a file.
#pragma once
#include <cstdint>

#include "kernels/gemv/format.h"

namespace pmnet::kernels {

// Size of a packed matrix, padding of the last panel included.
int64_t packed_bytes(WeightType type, int64_t rows, int64_t cols);

// stored [rows, cols]: int16 (kBF16, from quantize_int16) or int8 (kInt8). packed: packed_bytes() bytes.
void pack_rows(WeightType type, int64_t rows, int64_t cols, const void* stored, void* packed);

// out [end - begin, cols] = the scaled float32 values of rows [begin, end). For prefill, where ATen multiplies.
void unpack_rows(const WeightMatrix& w, int64_t begin, int64_t end, float* out);

}  // namespace pmnet::kernels
