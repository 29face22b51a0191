#include "kernels/matvec.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matvec.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// Weights in storage, as vectors of floats and one by one.
struct F32Row {
  const float* data;
  FloatVec load(int64_t c) const { return hn::LoadU(Floats(), data + c); }
  float at(int64_t c) const { return data[c]; }
};
struct BF16Row {
  const hwy::bfloat16_t* data;
  HWY_ATTR FloatVec load(int64_t c) const {
    return hn::PromoteTo(Floats(), hn::LoadU(hn::Rebind<hwy::bfloat16_t, Floats>(), data + c));
  }
  float at(int64_t c) const {
    const uint32_t bits = uint32_t{data[c].bits} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
};
struct Int8Row {
  const int8_t* data;
  HWY_ATTR FloatVec load(int64_t c) const {
    const Floats d;
    return hn::ConvertTo(
        d, hn::PromoteTo(hn::RebindToSigned<Floats>(), hn::LoadU(hn::Rebind<int8_t, Floats>(), data + c)));
  }
  float at(int64_t c) const { return data[c]; }
};

constexpr int64_t kCacheLine = 64;

// kRows rows by kVectors vectors, kSums sums of each in registers.
template <int kRows, int kVectors, int kSums, class Row>
HWY_INLINE void DotTile(const Row* rows, int64_t cols, const float* x, int64_t x_stride, float* sums) {
  const Floats d;
  constexpr int kSteps = 4;  // per turn, which is about a cache line of the narrowest weights
  const int64_t lanes = hn::Lanes(d), turn = kSteps * lanes;
  FloatVec total[kSums][kRows * kVectors];
  for (auto& sum : total)
    for (auto& t : sum) t = hn::Zero(d);
  const auto add = [&](int64_t column, FloatVec* HWY_RESTRICT sum) HWY_ATTR {
    FloatVec w[kRows];
    for (int i = 0; i < kRows; ++i) w[i] = rows[i].load(column);
    for (int v = 0; v < kVectors; ++v) {
      const auto xv = hn::LoadU(d, x + v * x_stride + column);
      for (int i = 0; i < kRows; ++i) sum[i * kVectors + v] = hn::MulAdd(w[i], xv, sum[i * kVectors + v]);
    }
  };
  int64_t c = 0;
  for (; c + turn <= cols; c += turn) {
    for (int i = 0; i < kRows; ++i) {
      // The tile after this one: rows are too short for the hardware to see a stream in them.
      const char* ahead = reinterpret_cast<const char*>(rows[i].data + kRows * cols + c);
      const int64_t bytes = turn * static_cast<int64_t>(sizeof(*rows[i].data));
      for (int64_t at = 0; at < bytes; at += kCacheLine) hwy::Prefetch(ahead + at);
    }
    for (int s = 0; s < kSteps; ++s) add(c + s * lanes, total[s % kSums]);
  }
  for (; c + lanes <= cols; c += lanes) add(c, total[0]);
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      FloatVec t = total[0][i * kVectors + v];
      for (int s = 1; s < kSums; ++s) t = hn::Add(t, total[s][i * kVectors + v]);
      float sum = sum_lanes(t);
      for (int64_t tail = c; tail < cols; ++tail) sum += rows[i].at(tail) * x[v * x_stride + tail];
      sums[i * kVectors + v] = sum;
    }
  }
}

template <int kVectors, class Row, class MakeRow>
void DotRows(const MakeRow& row_at, const WeightMatrix& w, int64_t begin, int64_t end, const float* bias,
             const float* x, int64_t x_stride, float* y, int64_t y_stride) {
  // One vector: row after row, which reads memory in order; sums of four steps hide the latency of the additions.
  // Four vectors: two rows; three would need one register more than AVX2 has.
  constexpr int kRows = kVectors == 1 ? 1 : 2, kSums = kVectors == 1 ? 4 : 1;
  const auto put = [&](int64_t row, const float* sums) {
    const float scale = w.scales ? w.scales[row] : 1.0f, shift = bias ? bias[row] : 0.0f;
    for (int v = 0; v < kVectors; ++v) y[v * y_stride + row] = sums[v] * scale + shift;
  };
  float sums[kRows * kVectors];
  int64_t row = begin;
  for (; row + kRows <= end; row += kRows) {
    Row rows[kRows];
    for (int i = 0; i < kRows; ++i) rows[i] = row_at(row + i);
    DotTile<kRows, kVectors, kSums>(rows, w.cols, x, x_stride, sums);
    for (int i = 0; i < kRows; ++i) put(row + i, sums + i * kVectors);
  }
  for (; row < end; ++row) {
    const Row last = row_at(row);
    DotTile<1, kVectors, kSums>(&last, w.cols, x, x_stride, sums);
    put(row, sums);
  }
}

template <class Row, class MakeRow>
void Dots(const MakeRow& row_at, const WeightMatrix& w, int64_t begin, int64_t end, const float* bias,
          int64_t num_vectors, const float* x, int64_t x_stride, float* y, int64_t y_stride) {
  constexpr int64_t kRowBlock = 16;  // small enough to stay in cache while the vectors take turns
  for (int64_t first = begin; first < end; first += kRowBlock) {
    const int64_t last = std::min(first + kRowBlock, end);
    int64_t v = 0;
    for (; v + 4 <= num_vectors; v += 4)
      DotRows<4, Row>(row_at, w, first, last, bias, x + v * x_stride, x_stride, y + v * y_stride, y_stride);
    for (; v < num_vectors; ++v)
      DotRows<1, Row>(row_at, w, first, last, bias, x + v * x_stride, x_stride, y + v * y_stride, y_stride);
  }
}

// body(row_at, tag) with the reader of the matrix's type.
template <class Body>
HWY_INLINE void WithType(const WeightMatrix& w, const Body& body) {
  switch (w.type) {
    case WeightType::kF32:
      return body([&](int64_t r) { return F32Row{static_cast<const float*>(w.data) + r * w.cols}; });
    case WeightType::kBF16:
      return body([&](int64_t r) { return BF16Row{static_cast<const hwy::bfloat16_t*>(w.data) + r * w.cols}; });
    case WeightType::kInt8:
      return body([&](int64_t r) { return Int8Row{static_cast<const int8_t*>(w.data) + r * w.cols}; });
  }
}

void MatVec(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, int64_t num_vectors, const float* x,
            int64_t x_stride, float* y, int64_t y_stride) {
  WithType(w, [&](const auto& row_at) HWY_ATTR {
    Dots<decltype(row_at(0))>(row_at, w, begin, end, bias, num_vectors, x, x_stride, y, y_stride);
  });
}

void UnpackRows(const WeightMatrix& w, int64_t begin, int64_t end, float* out) {
  WithType(w, [&](const auto& row_at) HWY_ATTR {
    const Floats d;
    const int64_t lanes = hn::Lanes(d);
    for (int64_t r = begin; r < end; ++r, out += w.cols) {
      const auto row = row_at(r);
      const float scale = w.scales ? w.scales[r] : 1.0f;
      int64_t c = 0;
      for (; c + lanes <= w.cols; c += lanes) hn::StoreU(hn::Mul(row.load(c), hn::Set(d, scale)), d, out + c);
      for (; c < w.cols; ++c) out[c] = row.at(c) * scale;
    }
  });
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(MatVec);
HWY_EXPORT(UnpackRows);

void matvec(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, int64_t num_vectors, const float* x,
            int64_t x_stride, float* y, int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(MatVec)(w, begin, end, bias, num_vectors, x, x_stride, y, y_stride);
}

void unpack_rows(const WeightMatrix& w, int64_t begin, int64_t end, float* out) {
  HWY_DYNAMIC_DISPATCH(UnpackRows)(w, begin, end, out);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
