#include "kernels/weight_packing.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/weight_packing.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/weight_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

void PackBf16Rows(int64_t rows, int64_t cols, const uint16_t* stored, uint16_t* packed) {
  const int64_t group = BF16Row::Lanes(), half = group / 2, whole = cols / group * group;
  for (int64_t r = 0; r < rows; ++r, stored += cols) {
    const int64_t second = r % 2;
    uint16_t* pair = packed + (r - second) * cols;
    for (int64_t c = 0; c < whole; c += group) {
      uint16_t* to = pair + 2 * c + second * group;
      for (int64_t i = 0; i < half; ++i) {
        to[2 * i] = stored[c + i];
        to[2 * i + 1] = stored[c + half + i];
      }
    }
    std::copy(stored + whole, stored + cols, pair + 2 * whole + second * (cols - whole));
  }
}

void UnpackRows(const WeightMatrix& w, int64_t begin, int64_t end, float* out) {
  const Floats d;
  const int64_t lanes = hn::Lanes(d);
  WithType(w, [&](const auto& row_at) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r, out += w.cols) {
      const auto row = row_at(r);
      using Row = decltype(row_at(r));
      int64_t c = 0;
      for (; c + Row::Lanes() <= w.cols; c += Row::Lanes())
        for (int64_t i = 0; i < Row::Lanes(); i += lanes)
          hn::StoreU(hn::Mul(row.Widen(c, i), hn::Set(d, row.scale)), d, out + c + i);
      for (; c < w.cols; ++c) out[c] = row.At(c) * row.scale;
    }
  });
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(PackBf16Rows);
HWY_EXPORT(UnpackRows);

void pack_bf16_rows(int64_t rows, int64_t cols, const uint16_t* stored, uint16_t* packed) {
  HWY_DYNAMIC_DISPATCH(PackBf16Rows)(rows, cols, stored, packed);
}

void unpack_rows(const WeightMatrix& w, int64_t begin, int64_t end, float* out) {
  HWY_DYNAMIC_DISPATCH(UnpackRows)(w, begin, end, out);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
