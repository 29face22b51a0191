#include "kernels/matvec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matvec.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/panel_products-inl.h"
#include "kernels/row_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// x * 32767 / max |x|, rounded; returns the number that undoes the scaling, which is no number if one of x is not.
float RoundToShorts(int64_t count, const float* x, int16_t* out) {
  const Floats d;
  // Compared as integers, what is no number is larger than all that are.
  const hn::RebindToSigned<Floats> bits;
  auto top = hn::Zero(bits);
  for_each_vector(count, [&](size_t j, auto io) HWY_ATTR {
    top = hn::Max(top, hn::BitCast(bits, hn::Abs(io.load(x + j))));  // zeros where masked
  });
  constexpr float kLargest = 32767;
  const float largest = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(bits, top)));
  if (largest == 0 || !std::isfinite(largest)) {
    std::fill_n(out, count, int16_t{0});
    return largest == 0 ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = kLargest / largest;
  const hn::Rebind<int16_t, Floats> narrow;
  const int64_t lanes = hn::Lanes(d);
  int64_t j = 0;
  for (; j + lanes <= count; j += lanes)
    hn::StoreU(hn::DemoteTo(narrow, hn::NearestInt(hn::Mul(hn::LoadU(d, x + j), hn::Set(d, scale)))), narrow, out + j);
  for (; j < count; ++j) out[j] = static_cast<int16_t>(std::lrint(x[j] * scale));
  return largest / kLargest;
}

void RoundVectors(int64_t cols, Vectors& out) {
  const int64_t even = RegistersPerPanel<Int8Panels>(cols) * Int8Panels::kColumns;
  out.shorts.resize(out.count * even);
  out.scales.resize(out.count);
  for (int64_t v = 0; v < out.count; ++v) {
    int16_t* shorts = out.shorts.data() + v * even;
    out.scales[v] = RoundToShorts(cols, out.data + v * out.stride, shorts);
    if (even > cols) shorts[cols] = 0;
  }
}

void Products(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, const Vectors& x, float* y,
              int64_t y_stride) {
  const Results out{bias, y, y_stride};
  switch (w.type) {
    case WeightType::kF32:
      return RowProducts(static_cast<const float*>(w.data) + w.first_row * w.cols, w.cols, begin, end, x.count, x.data,
                         x.stride, out);
    case WeightType::kBF16:
      return PanelProducts<BF16Panels>(w, begin, end, x.count, {x.data, x.stride, nullptr}, out);
    case WeightType::kInt8: {
      using Cell = Int8Panels::Cell;
      const auto* cells = reinterpret_cast<const Cell*>(x.shorts.data());
      return PanelProducts<Int8Panels>(w, begin, end, x.count,
                                       {cells, RegistersPerPanel<Int8Panels>(w.cols), x.scales.data()}, out);
    }
  }
}

// Long enough for memory to be read in order, short enough to share out; panels stay whole.
int64_t RowsPerPiece(const WeightMatrix& w, int64_t num_vectors) {
  constexpr int64_t kBytes = 32768;
  const int64_t weight_bytes = w.type == WeightType::kF32 ? 4 : w.type == WeightType::kBF16 ? 2 : 1;
  const int64_t together = w.type == WeightType::kF32 ? 2 : PanelsTogether(num_vectors) * PanelRows();
  return std::max<int64_t>(kBytes / (w.cols * weight_bytes * together), 1) * together;
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
  if (w.type == WeightType::kInt8) HWY_DYNAMIC_DISPATCH(RoundVectors)(w.cols, out);
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
