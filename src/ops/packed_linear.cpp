#include "ops/packed_linear.h"

#include "ops/common.h"

namespace pmnet::ops {
namespace {

using kernels::WeightType;

kernels::WeightMatrix matrix_of(const PackedWeight& w) {
  return {w.type, w.data.const_data_ptr(), data_or_null<float>(or_undefined(w.scales)), w.data.size(1)};
}

// Weight rows are spread over the threads in proportion to what there is to read.
void multiply(const kernels::WeightMatrix& w, int64_t rows, const Tensor& bias, const Tensor& x, Tensor& y) {
  constexpr int64_t kWeightsWorthATask = 1 << 15;
  const int64_t pieces = std::clamp<int64_t>(rows * w.cols / kWeightsWorthATask, 1, at::get_num_threads());
  for_each_range(rows, pieces, [&](int64_t, int64_t begin, int64_t end) {
    kernels::matvec(w, begin, end, data_or_null<float>(bias), x.size(0), x.const_data_ptr<float>(), w.cols,
                    y.mutable_data_ptr<float>(), rows);
  });
}

}  // namespace

PackedWeight PackedWeight::rows(int64_t begin, int64_t count) const {
  return {type, data.narrow(0, begin, count), scales ? OptTensor(scales->narrow(0, begin, count)) : std::nullopt};
}

PackedWeight pack_weight(const Tensor& weight, WeightType type) {
  const Tensor w = weight.detach().to(at::kFloat).contiguous();
  switch (type) {
    case WeightType::kF32:
      return {type, w, std::nullopt};
    case WeightType::kBF16:
      return {type, w.to(at::kBFloat16), std::nullopt};
    case WeightType::kInt8:
      break;
  }
  constexpr double kLargest = 127;
  const Tensor scales = (w.abs().amax(1) / kLargest).clamp_min(1e-30);
  return {type, (w / scales.unsqueeze(1)).round().clamp(-kLargest, kLargest).to(at::kChar), scales};
}

Tensor unpack_weight(const PackedWeight& w) {
  const Tensor wide = w.data.to(at::kFloat);
  return w.scales ? wide * w.scales->unsqueeze(1) : wide;
}

Tensor packed_linear(const Tensor& x, const PackedWeight& w, const OptTensor& bias) {
  const int64_t rows = w.data.size(0), cols = w.data.size(1);
  TORCH_CHECK(x.size(-1) == cols, "packed_linear: x has width ", x.size(-1), ", the weight has ", cols, " columns");
  if (!fast_path(x)) return at::linear(x, unpack_weight(w), or_undefined(bias));
  const Tensor vectors = x.contiguous().view({-1, cols});
  auto sizes = x.sizes().vec();
  sizes.back() = rows;
  if (vectors.size(0) <= kFewVectors) {
    Tensor y = at::empty({vectors.size(0), rows}, x.options());
    multiply(matrix_of(w), rows, bias ? bias->contiguous() : Tensor(), vectors, y);
    return y.view(sizes);
  }
  if (w.type == WeightType::kF32) return at::linear(x, w.data, or_undefined(bias));
  Tensor wide = at::empty({rows, cols}, x.options());
  for_each_range(rows, num_ranges(rows, 64), [&](int64_t, int64_t begin, int64_t end) {
    kernels::unpack_rows(matrix_of(w), begin, end, wide.mutable_data_ptr<float>() + begin * cols);
  });
  return at::linear(x, wide, or_undefined(bias));
}

void multiply_few(const Tensor& x, const Tensor& weight, Tensor& y) {
  multiply({WeightType::kF32, weight.const_data_ptr(), nullptr, weight.size(1)}, weight.size(0), Tensor(), x, y);
}

}  // namespace pmnet::ops
