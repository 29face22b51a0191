// Linear layers for inference, their weights stored as float32, bf16, or int8 with one scale per row. With few vectors
// (decoding) each weight is read once in its stored type; with many (prefill) the weights are widened and ATen
// multiplies.
#pragma once
#include "kernels/matvec.h"
#include "ops/ops.h"

namespace pmnet::ops {

struct PackedWeight {
  kernels::WeightType type;
  Tensor data;       // [out, in]
  OptTensor scales;  // [out], int8 only

  PackedWeight rows(int64_t begin, int64_t count) const;
};

// Up to this many vectors the product is bound by reading the weights.
constexpr int64_t kFewVectors = 32;

PackedWeight pack_weight(const Tensor& weight, kernels::WeightType type);
Tensor unpack_weight(const PackedWeight& weight);  // float32

Tensor packed_linear(const Tensor& x, const PackedWeight& weight, const OptTensor& bias);

// y [n, out] = x [n, in] weight^T for contiguous float32 tensors and n <= kFewVectors.
void multiply_few(const Tensor& x, const Tensor& weight, Tensor& y);

}  // namespace pmnet::ops
