#include "engine/packed_weight.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "kernels/gemv/pack.h"
#include "kernels/gemv/quantize.h"

namespace pmnet {

using kernels::WeightType;

namespace {

// Bf16 rows as 16-bit integers.
StoredWeight to_int16(const Tensor& rows) {
  const Tensor wide = rows.to(at::kFloat);
  const int64_t cols = rows.size(1);
  const Tensor shorts = at::empty(rows.sizes(), at::kShort), scales = at::empty({rows.size(0)}, at::kFloat);
  for (int64_t r = 0; r < rows.size(0); ++r)
    scales.mutable_data_ptr<float>()[r] =
        kernels::quantize_int16(cols, wide.const_data_ptr<float>() + r * cols, kernels::kMaxWeightNormInt16,
                                kernels::ScaleKind::kPowerOfTwo, shorts.mutable_data_ptr<int16_t>() + r * cols);
  return {shorts, scales};
}

}  // namespace

kernels::WeightMatrix PackedWeight::rows_from(int64_t first) const {
  const float* factors = scales.defined() ? scales.const_data_ptr<float>() + first : nullptr;
  return {type, data.const_data_ptr(), first, factors, num_inputs};
}

PackedWeight pack_weight(const StoredWeight& stored) {
  const Tensor rows = stored.values.contiguous();
  const int64_t outputs = rows.size(0), inputs = rows.size(1);
  if (rows.scalar_type() == at::kFloat) return {WeightType::kF32, rows, outputs, inputs, {}};
  const WeightType type = rows.scalar_type() == at::kBFloat16 ? WeightType::kBF16 : WeightType::kInt8;
  TORCH_CHECK(type == WeightType::kBF16 || (rows.scalar_type() == at::kChar && stored.scales),
              "pack_weight: weights are float32, bf16, or int8 with scales, not ", rows.scalar_type());
  const StoredWeight integers = type == WeightType::kBF16 ? to_int16(rows) : stored;
  const Tensor packed = at::empty({kernels::packed_bytes(type, outputs, inputs)}, at::kByte);
  kernels::pack_rows(type, outputs, inputs, integers.values.contiguous().const_data_ptr(), packed.mutable_data_ptr());
  return {type, packed, outputs, inputs, *integers.scales};
}

Tensor unpack_weight(const PackedWeight& w, int64_t first, int64_t count) {
  if (w.type == WeightType::kF32) return w.data.narrow(0, first, count);
  constexpr int64_t kRowsWorthATask = 64;
  Tensor wide = at::empty({count, w.num_inputs}, at::kFloat);
  at::parallel_for(0, count, kRowsWorthATask, [&](int64_t begin, int64_t end) {
    kernels::unpack_rows(w.rows_from(first), begin, end, wide.mutable_data_ptr<float>() + begin * w.num_inputs);
  });
  return wide;
}

}  // namespace pmnet
