// Weights widened to float32 where arithmetic takes longer than reading them.
#pragma once
#include <cstdint>

#include "kernels/matvec.h"

namespace pmnet::kernels {

// Rows [begin, end) as float32, [end - begin, cols].
void unpack_rows(const WeightMatrix& w, int64_t begin, int64_t end, float* out);

// matvec for vectors that lie side by side, `columns` [cols, num_vectors].
void multiply_columns(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, int64_t num_vectors,
                      const float* columns, float* y, int64_t y_stride);

constexpr int64_t kBlockRows = 12;  // of multiply_columns: enough for the vectors to be read from the first cache

}  // namespace pmnet::kernels
