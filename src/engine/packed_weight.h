// Weights in the layout the GEMV kernels read, and the linear layers made of them.
#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/gemv/gemv.h"
#include "model/tensors.h"

namespace pmnet {

using at::Tensor;

// A matrix [out, in]. Float32 stays as it is and shares its memory with the tensor it was made of. Int8 and bf16 are
// integers in panels with one factor per row. Bf16 becomes 16-bit integers times a power of two per row: exact but for
// weights below about a tenth of the row's typical magnitude, whose error is a tenth of what bf16 does to that.
struct PackedWeight {
  kernels::WeightType type = kernels::WeightType::kF32;
  Tensor data;  // as kernels::WeightMatrix says
  int64_t num_outputs = 0, num_inputs = 0;
  Tensor scales;  // [out]; undefined for float32

  kernels::WeightMatrix rows_from(int64_t first) const;
};

PackedWeight pack_weight(const StoredWeight& stored);
// Rows [first, first + count) in float32; those of a float32 weight are not copied.
Tensor unpack_weight(const PackedWeight& weight, int64_t first, int64_t count);

// W x + b.
struct Projection {
  PackedWeight weight;
  Tensor bias;  // [out]; undefined: none

  int64_t num_inputs() const { return weight.num_inputs; }
  int64_t num_outputs() const { return weight.num_outputs; }
  const float* bias_from(int64_t first) const {
    return bias.defined() ? bias.const_data_ptr<float>() + first : nullptr;
  }
};

}  // namespace pmnet
