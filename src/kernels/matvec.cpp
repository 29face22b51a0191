#include "kernels/matvec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/weight_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matvec.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/simd-inl.h"
#include "kernels/weight_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// Vectors in the type that Row multiplies with, and what their numbers are to be scaled by.
template <class X>
struct Numbers {
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
  auto a = Row::Zero(), b = a, c = a, d = a;
  int64_t at = begin;
  for (; at + turn <= end; at += turn) {
    PrefetchColumns(row, ahead + at, ahead + at + turn);
    a = Row::MulAdd(row.Load(at), Row::LoadX(x + at), a);
    b = Row::MulAdd(row.Load(at + lanes), Row::LoadX(x + at + lanes), b);
    c = Row::MulAdd(row.Load(at + 2 * lanes), Row::LoadX(x + at + 2 * lanes), c);
    d = Row::MulAdd(row.Load(at + 3 * lanes), Row::LoadX(x + at + 3 * lanes), d);
  }
  for (; at + lanes <= end; at += lanes) a = Row::MulAdd(row.Load(at), Row::LoadX(x + at), a);
  const float sum = Row::Sum(Row::Add(Row::Add(a, b), Row::Add(c, d)));
  return at < end ? sum + LastColumns(row, at, end, x) : sum;
}

// sums [kRows, kVectors] += the columns [begin, end) of kRows rows by kVectors vectors.
template <int kRows, int kVectors, class Row>
HWY_INLINE void DotTile(const Row* rows, int64_t cols, int64_t begin, int64_t end, const typename Row::X* x,
                        int64_t x_stride, float* sums) {
  constexpr int kSteps = 4;  // per turn, which is a cache line of the narrowest weights
  const int64_t lanes = Row::Lanes(), turn = kSteps * lanes, ahead = RowsAhead<Row>(kRows, cols) * cols;
  typename Row::Total total[kRows * kVectors];
  for (auto& t : total) t = Row::Zero();
  const auto add = [&](int64_t column) HWY_ATTR {
    decltype(rows[0].Load(0)) w[kRows];
    for (int i = 0; i < kRows; ++i) w[i] = rows[i].Load(column);
    for (int v = 0; v < kVectors; ++v) {
      const auto xv = keep_in_register(Row::LoadX(x + v * x_stride + column));
      for (int i = 0; i < kRows; ++i) total[i * kVectors + v] = Row::MulAdd(w[i], xv, total[i * kVectors + v]);
    }
  };
  int64_t c = begin;
  for (; c + turn <= end; c += turn) {
    for (int i = 0; i < kRows; ++i) PrefetchColumns(rows[i], ahead + c, ahead + c + turn);
    if constexpr (std::is_same_v<typename Row::X, float>) {
      for (int s = 0; s < kSteps; ++s) add(c + s * lanes);
    } else {
      // Unrolled, sums of integers would be reordered until they no longer fit into the registers.
      HWY_UNROLL(1)
      for (int s = 0; s < kSteps; ++s) add(c + s * lanes);
    }
  }
  for (; c + lanes <= end; c += lanes) add(c);
  for (int i = 0; i < kRows * kVectors; ++i) sums[i] += Row::Sum(total[i]);
  if (c == end) return;
  for (int i = 0; i < kRows * kVectors; ++i)
    sums[i] += LastColumns(rows[i / kVectors], c, end, x + i % kVectors * x_stride);
}

// Rows [begin, end) by kVectors vectors from first_vector on.
template <int kVectors, class Row, class MakeRow>
void DotRows(const MakeRow& row_at, const WeightMatrix& w, int64_t begin, int64_t end, const float* bias,
             const Numbers<typename Row::X>& x, int64_t first_vector, float* y, int64_t y_stride) {
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
          int64_t num_vectors, const Numbers<typename Row::X>& x, float* y, int64_t y_stride) {
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

void RoundVectors(const WeightMatrix& w, const float* x, int64_t x_stride, Vectors& out) {
  out.shorts.resize(out.count * w.cols);
  out.scales.resize(out.count);
  for (int64_t v = 0; v < out.count; ++v)
    out.scales[v] = RoundToShorts(w.cols, x + v * x_stride, out.shorts.data() + v * w.cols);
}

void DotProducts(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, const Vectors& x, float* y,
                 int64_t y_stride) {
  WithType(w, [&](const auto& row_at) HWY_ATTR {
    using Row = decltype(row_at(0));
    if constexpr (std::is_same_v<typename Row::X, float>)
      Dots<Row>(row_at, w, begin, end, bias, x.count, {x.data, x.stride, nullptr}, y, y_stride);
    else
      Dots<Row>(row_at, w, begin, end, bias, x.count, {x.shorts.data(), w.cols, x.scales.data()}, y, y_stride);
  });
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

namespace {

// From sixteen vectors on arithmetic takes longer than reading the weights. Int8 weights meet theirs in integers, which
// is quicker still.
bool are_many(const WeightMatrix& w, int64_t num_vectors) { return num_vectors >= 16 && w.type != WeightType::kInt8; }

// columns [cols, count] = the transpose of x, a cache line of every vector at a time.
void lay_side_by_side(int64_t count, int64_t cols, const float* x, int64_t x_stride, float* columns) {
  constexpr int64_t kLine = 16;
  for (int64_t first = 0; first < cols; first += kLine)
    for (int64_t v = 0; v < count; ++v)
      for (int64_t c = first; c < std::min(first + kLine, cols); ++c) columns[c * count + v] = x[v * x_stride + c];
}

}  // namespace

HWY_EXPORT(DotProducts);
HWY_EXPORT(RoundVectors);

void prepare_vectors(const WeightMatrix& w, int64_t count, const float* x, int64_t x_stride, Vectors& out) {
  out.count = count;
  out.stride = x_stride;
  out.data = x;
  if (are_many(w, count)) {
    out.columns.resize(w.cols * count);
    lay_side_by_side(count, w.cols, x, x_stride, out.columns.data());
  } else if (w.type == WeightType::kInt8) {
    HWY_DYNAMIC_DISPATCH(RoundVectors)(w, x, x_stride, out);
  }
}

void matvec(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, const Vectors& x, float* y,
            int64_t y_stride) {
  if (are_many(w, x.count))
    multiply_columns(w, begin, end, bias, x.count, x.columns.data(), y, y_stride);
  else
    HWY_DYNAMIC_DISPATCH(DotProducts)(w, begin, end, bias, x, y, y_stride);
}

int64_t rows_per_piece(const WeightMatrix& w, int64_t num_vectors) {
  if (are_many(w, num_vectors)) return kBlockRows;
  constexpr int64_t kBytes = 32768;  // long enough for memory to be read in order, short enough to share out
  const int64_t weight_bytes = w.type == WeightType::kF32 ? 4 : w.type == WeightType::kBF16 ? 2 : 1;
  return std::max<int64_t>(kBytes / (w.cols * weight_bytes), 1);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
