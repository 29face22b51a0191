#include "ops/packed_linear.h"

#include <algorithm>

#include "kernels/gemv/pack.h"
#include "kernels/gemv/quantize.h"
#include "ops/common.h"
#include "ops/share_pieces.h"

namespace pmnet::ops {
using kernels::WeightType;

namespace {

// Bf16 rows as 16-bit integers.
StoredWeight quantize_int16(const Tensor& rows) {
  const Tensor wide = rows.to(at::kFloat);
  const int64_t cols = rows.size(1);
  const Tensor shorts = at::empty(rows.sizes(), at::kShort), scales = at::empty({rows.size(0)}, at::kFloat);
  for (int64_t r = 0; r < rows.size(0); ++r)
    scales.mutable_data_ptr<float>()[r] =
        kernels::quantize_int16(cols, wide.const_data_ptr<float>() + r * cols, kernels::kMaxWeightNormInt16,
                                kernels::ScaleKind::kPowerOfTwo, shorts.mutable_data_ptr<int16_t>() + r * cols);
  return {shorts, scales};
}

bool takes_same_operands(const FewProduct& a, const FewProduct& b) {
  return a.x == b.x && a.x_stride == b.x_stride && a.vectors == b.vectors && a.weight.cols == b.weight.cols &&
         a.weight.type == b.weight.type;
}

// A few at a time: one takes less time than to call another thread.
void quantize_all(const FewProduct& p, kernels::Operands& operands) {
  constexpr int64_t kTogether = 4;
  share_pieces((p.vectors + kTogether - 1) / kTogether, [&](int64_t piece) {
    const int64_t end = std::min((piece + 1) * kTogether, p.vectors);
    for (int64_t v = piece * kTogether; v < end; ++v) kernels::quantize_operand(p.weight, v, operands);
  });
}

}  // namespace

PackedWeight PackedWeight::rows(int64_t begin, int64_t count) const {
  PackedWeight some = *this;
  some.first_row += begin;
  some.num_outputs = count;
  if (scales) some.scales = scales->narrow(0, begin, count);
  return some;
}

StoredWeight quantize_weight(const Tensor& weight, WeightType type) {
  const Tensor w = weight.detach().to(at::kFloat);
  if (type == WeightType::kF32) return {w};
  if (type == WeightType::kBF16) return {w.to(at::kBFloat16)};
  constexpr double kLargest = 127;
  const Tensor scales = (w.abs().amax(1) / kLargest).clamp_min(1e-30);
  return {(w / scales.unsqueeze(1)).round().clamp(-kLargest, kLargest).to(at::kChar), scales};
}

PackedWeight pack_weight(const StoredWeight& stored) {
  const Tensor rows = stored.values.contiguous();
  const int64_t outputs = rows.size(0), inputs = rows.size(1);
  if (rows.scalar_type() == at::kFloat) return {WeightType::kF32, rows, outputs, inputs, std::nullopt};
  const WeightType type = rows.scalar_type() == at::kBFloat16 ? WeightType::kBF16 : WeightType::kInt8;
  TORCH_CHECK(type == WeightType::kBF16 || (rows.scalar_type() == at::kChar && stored.scales),
              "pack_weight: weights are float32, bf16, or int8 with scales, not ", rows.scalar_type());
  const StoredWeight integers = type == WeightType::kBF16 ? quantize_int16(rows) : StoredWeight{rows, stored.scales};
  const Tensor packed = at::empty({kernels::packed_bytes(type, outputs, inputs)}, at::kByte);
  kernels::pack_rows(type, outputs, inputs, integers.values.const_data_ptr(), packed.mutable_data_ptr());
  return {type, packed, outputs, inputs, integers.scales};
}

Tensor unpack_weight(const PackedWeight& w) {
  if (w.type == WeightType::kF32) return w.data.narrow(0, w.first_row, w.num_outputs);  // on any device
  Tensor wide = at::empty({w.num_outputs, w.num_inputs}, at::kFloat);
  for_each_range(w.num_outputs, num_ranges(w.num_outputs, 64), [&](int64_t, int64_t begin, int64_t end) {
    kernels::unpack_rows(matrix_of(w), begin, end, wide.mutable_data_ptr<float>() + begin * w.num_inputs);
  });
  return wide;
}

Tensor packed_linear(const Tensor& x, const PackedWeight& w, const OptTensor& bias) {
  const int64_t rows = w.num_outputs, cols = w.num_inputs;
  TORCH_CHECK(x.size(-1) == cols, "packed_linear: x has width ", x.size(-1), ", the weight has ", cols, " columns");
  const bool few = cols > 0 && x.numel() <= kMaxGemvColumns * cols;
  if (!few || !use_kernels(x)) return at::linear(x, unpack_weight(w), or_undefined(bias));
  const Tensor rows_in = x.contiguous(), shift = bias ? bias->contiguous() : Tensor();
  auto sizes = x.sizes().vec();
  sizes.back() = rows;
  Tensor y = at::empty(sizes, x.options());
  multiply_few({{matrix_of(w), rows, data_at(shift), x.numel() / cols, rows_in.const_data_ptr<float>(), cols,
                 y.mutable_data_ptr<float>(), rows}});
  return y;
}

kernels::WeightMatrix matrix_of(const PackedWeight& w, int64_t first_row) {
  const float* scales = w.scales ? w.scales->const_data_ptr<float>() + first_row : nullptr;
  return {w.type, w.data.const_data_ptr(), w.first_row + first_row, scales, w.num_inputs};
}

void multiply_few(const std::vector<FewProduct>& products) {
  struct Share {
    kernels::Operands ready;
    const kernels::Operands* operands;  // those above, or those of the product before
    kernels::RowPartition pieces;
    int64_t first_piece;
  };
  thread_local std::vector<Share> kept;  // for its memory
  if (kept.size() < products.size()) kept.resize(products.size());
  std::vector<Share>& shares = kept;
  int64_t pieces = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    const FewProduct& p = products[i];
    if (i > 0 && takes_same_operands(p, products[i - 1])) {
      shares[i].operands = shares[i - 1].operands;
    } else {
      kernels::Operands& ready = shares[i].ready;
      kernels::bind_operands(p.weight, p.vectors, p.x, p.x_stride, ready);
      if (p.weight.type != WeightType::kF32) quantize_all(p, ready);
      shares[i].operands = &ready;
    }
    shares[i].pieces = kernels::partition_rows(p.weight, p.rows, p.vectors, at::get_num_threads());
    shares[i].first_piece = pieces;
    pieces += shares[i].pieces.size();
  }
  share_pieces(pieces, [&](int64_t piece) {
    size_t i = products.size() - 1;
    while (piece < shares[i].first_piece) --i;
    const FewProduct& p = products[i];
    kernels::gemv(p.weight, shares[i].pieces.range(piece - shares[i].first_piece), p.bias, *shares[i].operands, p.y,
                  p.y_stride);
  });
}

}  // namespace pmnet::ops
