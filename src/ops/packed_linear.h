// Linear layers for inference, their weights stored as float32, bf16, or int8 with one scale per row. With few vectors
// (decoding) each weight is read once, in as many bits as it is stored in; with many (prefill) the weights are widened
// and ATen multiplies.
#pragma once
#include "kernels/gemv/gemv.h"
#include "ops/ops.h"

namespace pmnet::ops {

// A weight [out, in] as a file holds it.
struct StoredWeight {
  Tensor values;
  OptTensor scales = std::nullopt;  // [out], int8 only
};

// The same as kernels read it. Bf16 weights have become 16-bit integers, to be multiplied by a power of two per row:
// exact but for those below about a tenth of the typical one, whose error is a tenth of what bf16 does to that one.
struct PackedWeight {
  kernels::WeightType type;
  Tensor data;  // as kernels::WeightMatrix says
  int64_t num_outputs, num_inputs;
  OptTensor scales;       // [out], not for float32
  int64_t first_row = 0;  // of those in `data`

  PackedWeight rows(int64_t begin, int64_t count) const;
};

// Up to this many vectors the product is bound by reading the weights.
constexpr int64_t kMaxGemvColumns = 32;

StoredWeight quantize_weight(const Tensor& weight, kernels::WeightType type);
PackedWeight pack_weight(const StoredWeight& stored);
Tensor unpack_weight(const PackedWeight& weight);  // [out, in] in float32

Tensor packed_linear(const Tensor& x, const PackedWeight& weight, const OptTensor& bias);

kernels::WeightMatrix matrix_of(const PackedWeight& weight, int64_t first_row = 0);

// y [vectors, rows] = x [vectors, cols] W^T + bias, with distances between vectors of their own.
struct FewProduct {
  kernels::WeightMatrix weight;
  int64_t rows;
  const float* bias;  // null: none
  int64_t vectors;
  const float* x;
  int64_t x_stride;
  float* y;
  int64_t y_stride;
};

// Products that do not depend on each other, for few vectors.
void multiply_few(const std::vector<FewProduct>& products);

}  // namespace pmnet::ops
