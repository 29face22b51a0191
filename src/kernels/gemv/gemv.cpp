#include "kernels/gemv/gemv.h"

#include "kernels/gemv/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemv/gemv.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/gemv/gemv_f32-inl.h"
#include "kernels/gemv/gemv_int-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// int16 values of one quantized operand: whole pairs of columns.
int64_t QuantizedColumns(int64_t cols) { return PairsPerPanel(cols) * kPairColumns; }

void QuantizeOperand(const WeightMatrix& w, int64_t index, Operands& out) {
  const int64_t padded = QuantizedColumns(w.cols);
  const float max_norm = w.type == WeightType::kBF16 ? kMaxOperandNormInt16 : kMaxOperandNormInt8;
  int16_t* quantized = out.quantized.data() + index * padded;
  out.scales[index] = quantize_int16(w.cols, out.data + index * out.stride, max_norm, ScaleKind::kAny, quantized);
  if (padded > w.cols) quantized[w.cols] = 0;
}

void Gemv(const WeightMatrix& w, const RowRange& rows, const float* bias, const Operands& x, float* y,
          int64_t y_stride) {
  const Output out{bias, y, y_stride};
  if (w.type == WeightType::kF32)
    return GemvF32(static_cast<const float*>(w.data) + w.first_row * w.cols, w.cols, rows, x.count, x.data, x.stride,
                   out);
  const PairRows pairs{reinterpret_cast<const Pair*>(x.quantized.data()), PairsPerPanel(w.cols), x.scales.data()};
  if (w.type == WeightType::kBF16)
    GemvInt<int16_t>(w, rows, x.count, pairs, out);
  else
    GemvInt<int8_t>(w, rows, x.count, pairs, out);
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(Gemv);
HWY_EXPORT(QuantizedColumns);
HWY_EXPORT(QuantizeOperand);

void bind_operands(const WeightMatrix& w, int64_t count, const float* x, int64_t x_stride, Operands& out) {
  out.count = count;
  out.stride = x_stride;
  out.data = x;
  if (w.type == WeightType::kF32) return;
  out.quantized.resize(count * HWY_DYNAMIC_DISPATCH(QuantizedColumns)(w.cols));
  out.scales.resize(count);
}

void quantize_operand(const WeightMatrix& w, int64_t index, Operands& out) {
  HWY_DYNAMIC_DISPATCH(QuantizeOperand)(w, index, out);
}

void gemv(const WeightMatrix& w, const RowRange& rows, const float* bias, const Operands& x, float* y,
          int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(Gemv)(w, rows, bias, x, y, y_stride);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
