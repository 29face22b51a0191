#include "kernels/matvec.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matvec.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"
#include "kernels/weight_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

constexpr int64_t kCacheLine = 64;

// Vectors in the type that Row multiplies with, and what their numbers are to be scaled by.
template <class X>
struct Vectors {
  const X* data;
  int64_t stride;
  const float* scales;  // null: 1
};

// How many rows ahead the weights to ask for lie: whole tiles, and far enough for memory to answer in time.
template <class Row>
HWY_INLINE int64_t RowsAhead(int64_t rows_per_tile, int64_t cols) {
  constexpr int64_t kBytesAhead = 4096;
  const int64_t tile_bytes = rows_per_tile * cols * static_cast<int64_t>(sizeof(*Row::data));
  return rows_per_tile * std::max<int64_t>(1, kBytesAhead / tile_bytes);
}

// Asks for the columns of one turn in a row that comes later: rows are too short for the hardware to see a stream in
// them.
template <class Row>
HWY_INLINE void PrefetchTurn(const Row& row, int64_t first_weight, int64_t weights) {
  const char* from = reinterpret_cast<const char*>(row.data + first_weight);
  const int64_t bytes = weights * static_cast<int64_t>(sizeof(*row.data));
  for (int64_t at = 0; at < bytes; at += kCacheLine) hwy::Prefetch(from + at);
}

// The columns that fill no vector. Apart from the tiles, whose sums would else not stay in registers.
template <class Row>
HWY_NOINLINE float LastColumns(const Row& row, int64_t begin, int64_t end, const typename Row::X* x) {
  float sum = 0;
  for (int64_t c = begin; c < end; ++c) sum += row.At(c) * static_cast<float>(x[c]);
  return sum;
}

// One row by one vector, columns [begin, end). Four sums hide the latency of the additions.
template <class Row>
HWY_INLINE float DotRow(const Row& row, int64_t cols, int64_t begin, int64_t end, const typename Row::X* x) {
  const int64_t lanes = Row::Lanes(), turn = 4 * lanes;
  const int64_t ahead = RowsAhead<Row>(1, cols) * cols;
  auto a = Row::Zero(), b = a, c = a, d = a, second = a;
  int64_t at = begin;
  for (; at + turn <= end; at += turn) {
    PrefetchTurn(row, ahead + at, turn);
    a = Row::MulAdd(row.Load(at), Row::LoadX(x + at), a, second);
    b = Row::MulAdd(row.Load(at + lanes), Row::LoadX(x + at + lanes), b, second);
    c = Row::MulAdd(row.Load(at + 2 * lanes), Row::LoadX(x + at + 2 * lanes), c, second);
    d = Row::MulAdd(row.Load(at + 3 * lanes), Row::LoadX(x + at + 3 * lanes), d, second);
  }
  for (; at + lanes <= end; at += lanes) a = Row::MulAdd(row.Load(at), Row::LoadX(x + at), a, second);
  const float sum = Row::Sum(Row::Add(Row::Add(a, b), Row::Add(c, d)), second);
  return at < end ? sum + LastColumns(row, at, end, x) : sum;
}

// sums [kRows, kVectors] += the columns [begin, end) of kRows rows by kVectors vectors.
template <int kRows, int kVectors, class Row>
HWY_INLINE void DotTile(const Row* rows, int64_t cols, int64_t begin, int64_t end, const typename Row::X* x,
                        int64_t x_stride, float* sums) {
  constexpr int kSteps = 4;  // per turn, which is a cache line of the narrowest weights
  const int64_t lanes = Row::Lanes(), turn = kSteps * lanes, ahead = RowsAhead<Row>(kRows, cols) * cols;
  typename Row::Total total[kRows * kVectors], second[kRows * kVectors];
  for (auto& t : total) t = Row::Zero();
  for (auto& t : second) t = Row::Zero();
  const auto add = [&](int64_t column) HWY_ATTR {
    decltype(rows[0].Load(0)) w[kRows];
    for (int i = 0; i < kRows; ++i) w[i] = rows[i].Load(column);
    for (int v = 0; v < kVectors; ++v) {
      const auto xv = Row::LoadX(x + v * x_stride + column);
      for (int i = 0; i < kRows; ++i) {
        const int at = i * kVectors + v;
        total[at] = Row::MulAdd(w[i], xv, total[at], second[at]);
      }
    }
  };
  int64_t c = begin;
  for (; c + turn <= end; c += turn) {
    for (int i = 0; i < kRows; ++i) PrefetchTurn(rows[i], ahead + c, turn);
    for (int s = 0; s < kSteps; ++s) add(c + s * lanes);
  }
  for (; c + lanes <= end; c += lanes) add(c);
  for (int i = 0; i < kRows * kVectors; ++i) sums[i] += Row::Sum(total[i], second[i]);
  if (c == end) return;
  for (int i = 0; i < kRows * kVectors; ++i)
    sums[i] += LastColumns(rows[i / kVectors], c, end, x + i % kVectors * x_stride);
}

// Rows [begin, end) by kVectors vectors from first_vector on.
template <int kVectors, class Row, class MakeRow>
void DotRows(const MakeRow& row_at, const WeightMatrix& w, int64_t begin, int64_t end, const float* bias,
             const Vectors<typename Row::X>& x, int64_t first_vector, float* y, int64_t y_stride) {
  const auto* vectors = x.data + first_vector * x.stride;
  const auto dot = [&](int64_t row, auto num_rows) HWY_ATTR {
    constexpr int kRows = decltype(num_rows)::value;
    Row rows[kRows];
    for (int i = 0; i < kRows; ++i) rows[i] = row_at(row + i);
    float sums[kRows * kVectors] = {};
    for (int64_t c = 0; c < w.cols; c += Row::MaxColumns()) {
      const int64_t last = std::min(w.cols - c, Row::MaxColumns()) + c;
      if constexpr (kVectors == 1)
        for (int i = 0; i < kRows; ++i) sums[i] += DotRow(rows[i], w.cols, c, last, vectors);
      else
        DotTile<kRows, kVectors>(rows, w.cols, c, last, vectors, x.stride, sums);
    }
    for (int i = 0; i < kRows; ++i) {
      const float scale = w.scales ? w.scales[row + i] : 1.0f, shift = bias ? bias[row + i] : 0.0f;
      for (int v = 0; v < kVectors; ++v) {
        const float both = x.scales ? scale * x.scales[first_vector + v] : scale;
        y[(first_vector + v) * y_stride + row + i] = sums[i * kVectors + v] * both + shift;
      }
    }
  };
  // One vector: row after row, which reads memory in order. Four: two rows; three would need one register more than
  // AVX2 has.
  constexpr int kRows = kVectors == 1 ? 1 : 2;
  int64_t row = begin;
  for (; row + kRows <= end; row += kRows) dot(row, std::integral_constant<int, kRows>());
  if (row < end) dot(row, std::integral_constant<int, 1>());
}

template <class Row, class MakeRow>
void Dots(const MakeRow& row_at, const WeightMatrix& w, int64_t begin, int64_t end, const float* bias,
          int64_t num_vectors, const Vectors<typename Row::X>& x, float* y, int64_t y_stride) {
  constexpr int64_t kRowBlock = 16;  // small enough to stay in cache while the vectors take turns
  for (int64_t first = begin; first < end; first += kRowBlock) {
    const int64_t last = std::min(first + kRowBlock, end);
    int64_t v = 0;
    for (; v + 4 <= num_vectors; v += 4) DotRows<4, Row>(row_at, w, first, last, bias, x, v, y, y_stride);
    for (; v < num_vectors; ++v) DotRows<1, Row>(row_at, w, first, last, bias, x, v, y, y_stride);
  }
}

// x * 32767 / max |x|, rounded; returns the number that undoes the scaling, which is no number if one of x is not.
float RoundToShorts(int64_t count, const float* x, int16_t* out) {
  const Floats d;
  auto top = hn::Zero(d), zero_or_nan = hn::Zero(d);
  for_each_vector(count, [&](size_t j, auto io) HWY_ATTR {
    const auto here = io.load(x + j);  // zeros where masked
    top = hn::Max(top, hn::Abs(here));
    zero_or_nan = hn::MulAdd(here, hn::Zero(d), zero_or_nan);
  });
  constexpr float kLargest = 32767;
  const float largest = hn::GetLane(hn::MaxOfLanes(d, top)) + sum_lanes(zero_or_nan);
  if (!(largest > 0)) {
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

// body(row_at) with the reader of the matrix's type.
template <class Body>
HWY_INLINE void WithType(const WeightMatrix& w, const Body& body) {
  switch (w.type) {
    case WeightType::kF32:
      return body([&](int64_t r) { return F32Row{{}, static_cast<const float*>(w.data) + r * w.cols}; });
    case WeightType::kBF16:
      return body([&](int64_t r) { return BF16Row{{}, static_cast<const hwy::bfloat16_t*>(w.data) + r * w.cols}; });
    case WeightType::kInt8:
      return body([&](int64_t r) { return Int8Row{static_cast<const int8_t*>(w.data) + r * w.cols}; });
  }
}

void MatVec(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, int64_t num_vectors, const float* x,
            int64_t x_stride, float* y, int64_t y_stride) {
  WithType(w, [&](const auto& row_at) HWY_ATTR {
    using Row = decltype(row_at(0));
    if constexpr (std::is_same_v<typename Row::X, float>) {
      Dots<Row>(row_at, w, begin, end, bias, num_vectors, {x, x_stride, nullptr}, y, y_stride);
    } else {
      std::vector<int16_t> shorts(num_vectors * w.cols);
      std::vector<float> scales(num_vectors);
      for (int64_t v = 0; v < num_vectors; ++v)
        scales[v] = RoundToShorts(w.cols, x + v * x_stride, shorts.data() + v * w.cols);
      Dots<Row>(row_at, w, begin, end, bias, num_vectors, {shorts.data(), w.cols, scales.data()}, y, y_stride);
    }
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
      for (; c + lanes <= w.cols; c += lanes) hn::StoreU(hn::Mul(row.Widen(c), hn::Set(d, scale)), d, out + c);
      for (; c < w.cols; ++c) out[c] = row.At(c) * scale;
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
