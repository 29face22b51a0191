#include "kernels/weight_packing.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/weight_packing.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/weight_panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// body(panels) with the panels of a packed type.
template <class Body>
HWY_INLINE auto WithPanels(WeightType type, const Body& body) {
  return type == WeightType::kBF16 ? body(BF16Panels()) : body(Int8Panels());
}

// body(place, column) with the places of a row's weights in its panel.
template <class P, class Body>
HWY_INLINE void ForEachWeight(int64_t row, int64_t cols, const Body& body) {
  const int64_t lanes = PanelRows() / 2, in_panel = row % PanelRows();
  for (int64_t c = 0; c < cols; ++c)
    body(c / P::kColumns * RegisterWeights<P>() + P::Place(in_panel, c % P::kColumns, lanes), c);
}

int64_t PackedBytes(WeightType type, int64_t rows, int64_t cols) {
  return WithPanels(type, [&](auto panels) HWY_ATTR {
    using P = decltype(panels);
    const int64_t count = (rows + PanelRows() - 1) / PanelRows();
    return count * PanelWeights<P>(cols) * static_cast<int64_t>(sizeof(typename P::Weight));
  });
}

void PackRows(WeightType type, int64_t rows, int64_t cols, const void* stored, void* packed) {
  WithPanels(type, [&](auto panels) HWY_ATTR {
    using P = decltype(panels);
    using Weight = typename P::Weight;
    std::fill_n(static_cast<char*>(packed), PackedBytes(type, rows, cols), 0);
    const auto* from = static_cast<const Weight*>(stored);
    for (int64_t r = 0; r < rows; ++r, from += cols) {
      Weight* panel = static_cast<Weight*>(packed) + r / PanelRows() * PanelWeights<P>(cols);
      ForEachWeight<P>(r, cols, [&](int64_t place, int64_t c) { panel[place] = from[c]; });
    }
  });
}

void UnpackRows(const WeightMatrix& w, int64_t begin, int64_t end, float* out) {
  WithPanels(w.type, [&](auto panels) HWY_ATTR {
    using P = decltype(panels);
    for (int64_t r = begin; r < end; ++r, out += w.cols) {
      const int64_t row = w.first_row + r;
      const auto* panel = static_cast<const typename P::Weight*>(w.data) + row / PanelRows() * PanelWeights<P>(w.cols);
      const float scale = w.scales ? w.scales[r] : 1;
      ForEachWeight<P>(row, w.cols, [&](int64_t place, int64_t c) { out[c] = P::Widen(panel[place]) * scale; });
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
