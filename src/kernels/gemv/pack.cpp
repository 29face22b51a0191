#include "kernels/gemv/pack.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemv/pack.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/gemv/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// Calls body with a value of the integer type that stores the weights.
template <class Body>
HWY_INLINE auto WithType(WeightType type, const Body& body) {
  if (type == WeightType::kBF16) return body(int16_t());
  return body(int8_t());
}

// Calls body(index, column) for every weight of a row; `index` counts from the start of the row's panel.
template <class Body>
HWY_INLINE void ForEachWeight(int64_t row, int64_t cols, const Body& body) {
  const int64_t in_panel = row % PanelRows();
  for (int64_t c = 0; c < cols; ++c)
    body(c / kPairColumns * PairWeights() + in_panel * kPairColumns + c % kPairColumns, c);
}

int64_t PackedBytes(WeightType type, int64_t rows, int64_t cols) {
  const int64_t panels = (rows + PanelRows() - 1) / PanelRows();
  const auto size = WithType(type, [](auto weight) HWY_ATTR { return sizeof(weight); });
  return panels * PanelWeights(cols) * static_cast<int64_t>(size);
}

void PackRows(WeightType type, int64_t rows, int64_t cols, const void* stored, void* packed) {
  std::fill_n(static_cast<char*>(packed), PackedBytes(type, rows, cols), 0);
  WithType(type, [&](auto weight) HWY_ATTR {
    using Weight = decltype(weight);
    const auto* from = static_cast<const Weight*>(stored);
    for (int64_t r = 0; r < rows; ++r, from += cols) {
      Weight* panel = static_cast<Weight*>(packed) + r / PanelRows() * PanelWeights(cols);
      ForEachWeight(r, cols, [&](int64_t index, int64_t c) { panel[index] = from[c]; });
    }
  });
}

void UnpackRows(const WeightMatrix& w, int64_t begin, int64_t end, float* out) {
  WithType(w.type, [&](auto weight) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r, out += w.cols) {
      const int64_t row = w.first_row + r;
      const auto* panel = static_cast<const decltype(weight)*>(w.data) + row / PanelRows() * PanelWeights(w.cols);
      ForEachWeight(row, w.cols, [&](int64_t index, int64_t c) { out[c] = panel[index] * w.scales[r]; });
    }
  });
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(PackedBytes);
HWY_EXPORT(PackRows);
HWY_EXPORT(UnpackRows);

int64_t packed_bytes(WeightType type, int64_t rows, int64_t cols) {
  return HWY_DYNAMIC_DISPATCH(PackedBytes)(type, rows, cols);
}

void pack_rows(WeightType type, int64_t rows, int64_t cols, const void* stored, void* packed) {
  HWY_DYNAMIC_DISPATCH(PackRows)(type, rows, cols, stored, packed);
}

void unpack_rows(const WeightMatrix& w, int64_t begin, int64_t end, float* out) {
  HWY_DYNAMIC_DISPATCH(UnpackRows)(w, begin, end, out);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
