#include "ops/packed_linear.h"

#include <algorithm>

#include "kernels/weight_packing.h"
#include "ops/common.h"
#include "ops/share_pieces.h"

namespace pmnet::ops {
using kernels::WeightType;

PackedWeight PackedWeight::rows(int64_t begin, int64_t count) const {
  if (type == WeightType::kBF16 && begin % 2 != 0)  // would part a pair
    return pack_weight(unpack_weight(*this).narrow(0, begin, count), type);
  return {type, data.narrow(0, begin, count), scales ? OptTensor(scales->narrow(0, begin, count)) : std::nullopt};
}

PackedWeight pack_weight(const Tensor& weight, WeightType type) {
  const Tensor w = weight.detach().to(at::kFloat).contiguous();
  switch (type) {
    case WeightType::kF32:
      return {type, w, std::nullopt};
    case WeightType::kBF16: {
      const int64_t rows = w.size(0), cols = w.size(1);
      const Tensor stored = w.to(at::kBFloat16), packed = at::zeros({rows + rows % 2, cols}, stored.options());
      kernels::pack_bf16_rows(rows, cols, static_cast<const uint16_t*>(stored.const_data_ptr()),
                              static_cast<uint16_t*>(packed.mutable_data_ptr()));
      return {type, packed.narrow(0, 0, rows), std::nullopt};
    }
    case WeightType::kInt8:
      break;
  }
  constexpr double kLargest = 127;
  const Tensor scales = (w.abs().amax(1) / kLargest).clamp_min(1e-30);
  return {type, (w / scales.unsqueeze(1)).round().clamp(-kLargest, kLargest).to(at::kChar), scales};
}

Tensor unpack_weight(const PackedWeight& w) {
  if (w.type == WeightType::kF32) return w.data.to(at::kFloat);  // on any device
  const int64_t rows = w.data.size(0);
  Tensor wide = at::empty(w.data.sizes(), at::kFloat);
  for_each_range(rows, num_ranges(rows, 64), [&](int64_t, int64_t begin, int64_t end) {
    kernels::unpack_rows(matrix_of(w), begin, end, wide.mutable_data_ptr<float>() + begin * w.data.size(1));
  });
  return wide;
}

Tensor stored_weight(const PackedWeight& w) {
  return w.type == WeightType::kBF16 ? unpack_weight(w).to(at::kBFloat16) : w.data;
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
    const Tensor shift = bias ? bias->contiguous() : Tensor();
    multiply_few({{matrix_of(w), rows, data_or_null<float>(shift), vectors.size(0), vectors.const_data_ptr<float>(),
                   cols, y.mutable_data_ptr<float>(), rows}});
    return y.view(sizes);
  }
  return at::linear(x, unpack_weight(w), or_undefined(bias));
}

kernels::WeightMatrix matrix_of(const PackedWeight& w, int64_t first_row) {
  TORCH_CHECK(w.type != WeightType::kBF16 || first_row % 2 == 0, "matrix_of: bf16 rows lie in pairs, row ", first_row,
              " does not begin one");
  const int64_t cols = w.data.size(1);
  const auto* data = static_cast<const char*>(w.data.const_data_ptr()) + first_row * cols * w.data.element_size();
  const float* scales = w.scales ? static_cast<const float*>(w.scales->const_data_ptr()) + first_row : nullptr;
  return {w.type, data, scales, cols};
}

void multiply_few(const std::vector<FewProduct>& products) {
  struct Share {
    kernels::Vectors vectors;
    int64_t rows_per_piece, end_piece;
  };
  thread_local std::vector<Share> kept;  // for its memory
  if (kept.size() < products.size()) kept.resize(products.size());
  std::vector<Share>& shares = kept;
  int64_t pieces = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    const FewProduct& p = products[i];
    kernels::prepare_vectors(p.weight, p.vectors, p.x, p.x_stride, shares[i].vectors);
    const int64_t rows = shares[i].rows_per_piece = kernels::rows_per_piece(p.weight);
    shares[i].end_piece = pieces += (p.rows + rows - 1) / rows;
  }
  share_pieces(pieces, [&](int64_t piece) {
    size_t i = 0;
    while (piece >= shares[i].end_piece) ++i;
    const FewProduct& p = products[i];
    const int64_t end = p.rows - (shares[i].end_piece - piece - 1) * shares[i].rows_per_piece;
    kernels::matvec(p.weight, std::max<int64_t>(end - shares[i].rows_per_piece, 0), end, p.bias, shares[i].vectors, p.y,
                    p.y_stride);
  });
}

}  // namespace pmnet::ops
