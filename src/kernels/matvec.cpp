#include "kernels/matvec.h"

#include <algorithm>

#include "kernels/fixed_point.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matvec.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/panel_products-inl.h"
#include "kernels/row_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

void RoundVectors(WeightType type, int64_t cols, Vectors& out) {
  const int64_t even = RegistersPerPanel(cols) * kRegisterColumns;
  const float longest = type == WeightType::kBF16 ? kLongestBesideShorts : kLongestBesideBytes;
  out.shorts.resize(out.count * even);
  out.scales.resize(out.count);
  for (int64_t v = 0; v < out.count; ++v) {
    int16_t* shorts = out.shorts.data() + v * even;
    out.scales[v] = round_to_shorts(cols, out.data + v * out.stride, longest, Factor::kAny, shorts);
    if (even > cols) shorts[cols] = 0;
  }
}

void Products(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, const Vectors& x, float* y,
              int64_t y_stride) {
  const Results out{bias, y, y_stride};
  if (w.type == WeightType::kF32)
    return RowProducts(static_cast<const float*>(w.data) + w.first_row * w.cols, w.cols, begin, end, x.count, x.data,
                       x.stride, out);
  const CellRows cells{reinterpret_cast<const Cell*>(x.shorts.data()), RegistersPerPanel(w.cols), x.scales.data()};
  if (w.type == WeightType::kBF16)
    PanelProducts<int16_t>(w, begin, end, x.count, cells, out);
  else
    PanelProducts<int8_t>(w, begin, end, x.count, cells, out);
}

// Long enough for memory to be read in order, short enough to share out; panels, and those read together, stay whole.
int64_t RowsPerPiece(const WeightMatrix& w, int64_t num_vectors) {
  constexpr int64_t kBytes = 32768;
  const auto whole = [&](int64_t bytes, int64_t together) {
    return std::max<int64_t>(bytes / (w.cols * together), 1) * together;
  };
  if (w.type == WeightType::kF32)
    return num_vectors <= kTile ? whole(2 * kBytes / sizeof(float), kRowStreams) : whole(kBytes / sizeof(float), 2);
  const bool bf16 = w.type == WeightType::kBF16;
  const int64_t streamed = bf16 ? kMostStreamed<int16_t> : kMostStreamed<int8_t>;
  return whole(bf16 ? kBytes / 2 : kBytes, (num_vectors <= streamed ? kStreams : 1) * PanelRows());
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(Products);
HWY_EXPORT(RoundVectors);
HWY_EXPORT(RowsPerPiece);

void prepare_vectors(const WeightMatrix& w, int64_t count, const float* x, int64_t x_stride, Vectors& out) {
  out.count = count;
  out.stride = x_stride;
  out.data = x;
  if (w.type != WeightType::kF32) HWY_DYNAMIC_DISPATCH(RoundVectors)(w.type, w.cols, out);
}

void matvec(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, const Vectors& x, float* y,
            int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(Products)(w, begin, end, bias, x, y, y_stride);
}

int64_t rows_per_piece(const WeightMatrix& w, int64_t num_vectors) {
  return HWY_DYNAMIC_DISPATCH(RowsPerPiece)(w, num_vectors);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
