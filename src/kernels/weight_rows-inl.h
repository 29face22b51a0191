// Rows of weights in each type they are stored in, compiled once per instruction set (Highway's per-target include).
#if defined(PMNET_KERNELS_WEIGHT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_WEIGHT_ROWS_INL_H_
#undef PMNET_KERNELS_WEIGHT_ROWS_INL_H_
#else
#define PMNET_KERNELS_WEIGHT_ROWS_INL_H_
#endif

#include <hwy/cache_control.h>

#include <cstring>

#include "kernels/matvec.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// How the rows of one type of weights are multiplied. A row loads Lanes() of its weights as kParts vectors of the type
// they are multiplied in (Load), floats of them from the i-th on (Widen), or one weight for the columns that fill no
// vector (At). Its weights are to be multiplied by `scale`. kRowsTogether rows lie in the same cache lines.
struct FloatProducts {
  using X = float;
  using Total = FloatVec;
  static constexpr float scale = 1;
  static int64_t MaxColumns() { return int64_t{1} << 62; }
  static HWY_ATTR Total Zero() { return hn::Zero(Floats()); }
  static HWY_ATTR FloatVec LoadX(const X* x) { return hn::LoadU(Floats(), x); }
  static HWY_ATTR Total Add(Total a, Total b) { return hn::Add(a, b); }
  static HWY_ATTR Total MulAdd(FloatVec w, FloatVec x, Total total) { return hn::MulAdd(w, x, total); }
  static HWY_ATTR float Sum(Total total) { return sum_lanes(total); }
};
struct F32Row : FloatProducts {
  static constexpr int kParts = 1, kRowsTogether = 1;
  const float* data;
  static HWY_ATTR int64_t Lanes() { return static_cast<int64_t>(hn::Lanes(Floats())); }
  HWY_ATTR FloatVec Load(int64_t c, int /*part*/) const { return hn::LoadU(Floats(), data + c); }
  HWY_ATTR FloatVec Widen(int64_t c, int64_t /*i*/) const { return Load(c, 0); }
  float At(int64_t c) const { return data[c]; }
  const float* Address(int64_t c) const { return data + c; }
};
// In the order of pack_bf16_rows.
struct BF16Row : FloatProducts {
  static constexpr int kParts = 2, kRowsTogether = 2;
  const uint16_t* data;
  const uint16_t* last;  // [c] for the columns that fill no register
  BF16Row() = default;
  HWY_ATTR BF16Row(const uint16_t* matrix, int64_t cols, int64_t row) {
    const int64_t whole = cols / Lanes() * Lanes(), second = row % 2;
    const uint16_t* pair = matrix + (row - second) * cols;
    data = pair + second * Lanes();
    last = pair + whole + second * (cols - whole);
  }
  static HWY_ATTR int64_t Lanes() { return kParts * static_cast<int64_t>(hn::Lanes(Floats())); }
  HWY_ATTR FloatVec Load(int64_t c, int part) const {
    const hn::RebindToUnsigned<Floats> bits;
    const auto both = hn::LoadU(bits, reinterpret_cast<const uint32_t*>(Address(c)));
    return hn::BitCast(Floats(), part == 0 ? hn::ShiftLeft<16>(both) : hn::And(both, hn::Set(bits, 0xFFFF0000u)));
  }
  HWY_ATTR FloatVec Widen(int64_t c, int64_t i) const { return Load(c, i == 0 ? 0 : 1); }
  float At(int64_t c) const {
    const uint32_t bits = uint32_t{last[c]} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  const uint16_t* Address(int64_t c) const { return data + kRowsTogether * c; }
};

// Int8 weights are multiplied with vectors rounded to 16 bits (an error 128 times smaller than that of the weights) and
// summed in 32-bit integers: half the instructions of going through floats.
using Shorts = hn::ScalableTag<int16_t>;
using Ints = hn::ScalableTag<int32_t>;
using IntVec = hn::Vec<Ints>;
struct Int8Row {
  static constexpr int kParts = 1, kRowsTogether = 1;
  const int8_t* data;
  float scale;
  using X = int16_t;
  using Total = IntVec;
  // A step adds two products of at most 128 * 32767 to a lane: 256 steps fit in 32 bits.
  static HWY_ATTR int64_t MaxColumns() { return 256 * Lanes(); }
  static HWY_ATTR Total Zero() { return hn::Zero(Ints()); }
  static HWY_ATTR hn::Vec<Shorts> LoadX(const X* x) { return hn::LoadU(Shorts(), x); }
  static HWY_ATTR Total Add(Total a, Total b) { return hn::Add(a, b); }
  static HWY_ATTR Total MulAdd(hn::Vec<Shorts> w, hn::Vec<Shorts> x, Total total) {
    Total second = Zero();  // stays zero on x86, where nothing is then added
    total = hn::ReorderWidenMulAccumulate(Ints(), w, x, total, second);
    return Add(total, second);
  }
  static HWY_ATTR float Sum(Total total) { return sum_lanes(hn::ConvertTo(Floats(), total)); }
  static HWY_ATTR int64_t Lanes() { return static_cast<int64_t>(hn::Lanes(Shorts())); }
  HWY_ATTR hn::Vec<Shorts> Load(int64_t c, int /*part*/) const {
    return hn::PromoteTo(Shorts(), hn::LoadU(hn::Rebind<int8_t, Shorts>(), data + c));
  }
  HWY_ATTR FloatVec Widen(int64_t c, int64_t i) const {
    return hn::ConvertTo(Floats(), hn::PromoteTo(Ints(), hn::LoadU(hn::Rebind<int8_t, Floats>(), data + c + i)));
  }
  float At(int64_t c) const { return data[c]; }
  const int8_t* Address(int64_t c) const { return data + c; }
};

// Asks for columns of a row that comes later: rows are too short for the hardware to see a stream in them.
template <class Row>
HWY_INLINE void PrefetchColumns(const Row& row, int64_t begin, int64_t end) {
  constexpr int64_t kLine = 64 / sizeof(*row.data);
  const auto* first = row.Address(begin);
  for (int64_t i = 0; i < (end - begin) * Row::kRowsTogether; i += kLine) hwy::Prefetch(first + i);
}

// body(row_at) with the reader of the matrix's type.
template <class Body>
HWY_INLINE void WithType(const WeightMatrix& w, const Body& body) {
  switch (w.type) {
    case WeightType::kF32:
      return body([&](int64_t r) { return F32Row{{}, static_cast<const float*>(w.data) + r * w.cols}; });
    case WeightType::kBF16:
      return body([&](int64_t r) HWY_ATTR { return BF16Row(static_cast<const uint16_t*>(w.data), w.cols, r); });
    case WeightType::kInt8:
      return body([&](int64_t r) { return Int8Row{static_cast<const int8_t*>(w.data) + r * w.cols, w.scales[r]}; });
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
