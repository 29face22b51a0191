#include "kernels/matvec.h"

#include <algorithm>
#include <bit>
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

// Vectors in the type that Row multiplies with, and what their numbers are to be scaled by.
template <class X>
struct Numbers {
  const X* data;
  int64_t stride;
  const float* scales;  // null: 1
};

// Columns between two requests to memory: a cache line of the narrowest weights.
template <class Row>
HWY_INLINE int64_t Turn() {
  return 4 * Row::Lanes();
}

// Which weights to ask memory for while multiplying with some: columns that lie so far behind the first of the current
// row, and how many more every turn. Where several passes over the same rows divide the next ones among them, each asks
// for its share of a row.
struct Ahead {
  int64_t begin, per_turn;

  template <class Row>
  HWY_INLINE void Prefetch(const Row& row, int64_t column) const {
    const int64_t asked = begin + column / Turn<Row>() * per_turn;
    PrefetchColumns(row, asked, asked + Turn<Row>());
  }
};

// The columns that fill no vector. Apart from the tiles, whose sums would else not stay in registers.
template <class Row>
HWY_NOINLINE float LastColumns(const Row& row, int64_t begin, int64_t end, const typename Row::X* x) {
  float sum = 0;
  for (int64_t c = begin; c < end; ++c) sum += row.At(c) * static_cast<float>(x[c]);
  return sum;
}

// sums [kRows] += the columns [begin, end) of kRows rows, which lie together, by one vector. Four totals of each hide
// the latency of the additions.
template <int kRows, class Row>
HWY_INLINE void DotRow(const Row* rows, const Ahead& ahead, int64_t begin, int64_t end, const typename Row::X* x,
                       float* sums) {
  const int64_t lanes = Row::Lanes(), turn = Turn<Row>();
  typename Row::Total total[kRows * 4];
  HWY_UNROLL(8)
  for (int i = 0; i < kRows * 4; ++i) total[i] = Row::Zero();
  const auto add = [&](int64_t column, int first_total) HWY_ATTR {
    for (int part = 0; part < Row::kParts; ++part) {
      const auto xv = Row::LoadX(x + column + part * (lanes / Row::kParts));
      for (int i = 0; i < kRows; ++i) {
        auto& t = total[i * 4 + (first_total + part) % 4];
        t = Row::MulAdd(rows[i].Load(column, part), xv, t);
      }
    }
  };
  int64_t c = begin;
  for (; c + turn <= end; c += turn) {
    ahead.Prefetch(rows[0], c);
    HWY_UNROLL(4)
    for (int i = 0; i < 4; ++i) add(c + i * lanes, i * Row::kParts);
  }
  for (; c + lanes <= end; c += lanes) add(c, 0);
  HWY_UNROLL(2)
  for (int i = 0; i < kRows; ++i) {
    const auto* t = total + i * 4;
    sums[i] += Row::Sum(Row::Add(Row::Add(t[0], t[1]), Row::Add(t[2], t[3])));
  }
  if (c == end) return;
  for (int i = 0; i < kRows; ++i) sums[i] += LastColumns(rows[i], c, end, x);
}

// sums [kRows, kVectors] += the columns [begin, end) of kRows rows by kVectors vectors. Not inlined, or the compiler
// keeps `sums` in registers too.
template <int kRows, int kVectors, class Row>
HWY_NOINLINE void DotTile(const Row* rows, const Ahead& ahead, int64_t begin, int64_t end, const typename Row::X* x,
                          int64_t x_stride, float* sums) {
  const int64_t lanes = Row::Lanes(), turn = Turn<Row>();
  typename Row::Total total[kRows * kVectors];
  HWY_UNROLL(16)
  for (int i = 0; i < kRows * kVectors; ++i) total[i] = Row::Zero();
  const auto add = [&](int64_t column) HWY_ATTR {
    for (int part = 0; part < Row::kParts; ++part) {
      decltype(rows[0].Load(0, 0)) w[kRows];
      for (int i = 0; i < kRows; ++i) w[i] = rows[i].Load(column, part);
      const auto* columns = x + column + part * (lanes / Row::kParts);
      for (int v = 0; v < kVectors; ++v) {
        const auto xv = keep_in_register(Row::LoadX(columns + v * x_stride));
        for (int i = 0; i < kRows; ++i) total[i * kVectors + v] = Row::MulAdd(w[i], xv, total[i * kVectors + v]);
      }
    }
  };
  int64_t c = begin;
  for (; c + turn <= end; c += turn) {
    for (int i = 0; i < kRows; i += Row::kRowsTogether) ahead.Prefetch(rows[i], c);
    if constexpr (std::is_same_v<typename Row::X, float>) {
      HWY_UNROLL(4)
      for (int i = 0; i < 4; ++i) add(c + i * lanes);
    } else {
      // Unrolled, sums of integers would be reordered until they no longer fit into the registers.
      HWY_UNROLL(1)
      for (int i = 0; i < 4; ++i) add(c + i * lanes);
    }
  }
  for (; c + lanes <= end; c += lanes) add(c);
  HWY_UNROLL(16)
  for (int i = 0; i < kRows * kVectors; ++i) sums[i] += Row::Sum(total[i]);
  if (c == end) return;
  for (int i = 0; i < kRows * kVectors; ++i)
    sums[i] += LastColumns(rows[i / kVectors], c, end, x + i % kVectors * x_stride);
}

// Where products go: y[v, row] with the row's bias, which may be null.
struct Results {
  const float* bias;
  float* y;
  int64_t y_stride;
};

// Rows [begin, end) by kVectors vectors from first_vector on.
template <int kVectors, class Row, class MakeRow>
void DotRows(const MakeRow& row_at, int64_t cols, int64_t begin, int64_t end, const Numbers<typename Row::X>& x,
             int64_t first_vector, const Ahead& ahead, const Results& out) {
  const auto* vectors = x.data + first_vector * x.stride;
  const auto dot = [&](int64_t row, auto num_rows) HWY_ATTR {
    constexpr int kRows = decltype(num_rows)::value;
    Row rows[kRows];
    for (int i = 0; i < kRows; ++i) rows[i] = row_at(row + i);
    float sums[kRows * kVectors] = {};
    for (int64_t c = 0; c < cols; c += Row::MaxColumns()) {
      const int64_t last = std::min(cols - c, Row::MaxColumns()) + c;
      if constexpr (kVectors == 1)
        DotRow<kRows>(rows, ahead, c, last, vectors, sums);
      else
        DotTile<kRows, kVectors>(rows, ahead, c, last, vectors, x.stride, sums);
    }
    for (int i = 0; i < kRows; ++i) {
      const float shift = out.bias ? out.bias[row + i] : 0.0f;
      for (int v = 0; v < kVectors; ++v) {
        const float scale = x.scales ? rows[i].scale * x.scales[first_vector + v] : rows[i].scale;
        out.y[(first_vector + v) * out.y_stride + row + i] = sums[i * kVectors + v] * scale + shift;
      }
    }
  };
  // One vector: in the order of memory. Four: two rows; three would need one register more than AVX2 has.
  constexpr int kRows = kVectors == 1 ? Row::kRowsTogether : 2;
  int64_t row = begin;
  for (; row + kRows <= end; row += kRows) dot(row, std::integral_constant<int, kRows>());
  if (row < end) dot(row, std::integral_constant<int, 1>());
}

template <class Row, class MakeRow>
void Dots(const MakeRow& row_at, int64_t cols, int64_t begin, int64_t end, int64_t num_vectors,
          const Numbers<typename Row::X>& x, const Results& out) {
  constexpr int64_t kRowBlock = 16;      // small enough to stay in cache while the vectors take turns
  constexpr int64_t kTile = 4;           // vectors at once
  constexpr int64_t kBytesAhead = 8192;  // far enough for memory to answer in time
  const int64_t passes = num_vectors / kTile + num_vectors % kTile;
  // A single pass meets its rows soon; of several only the first would find them missing, and memory idle in the
  // others.
  const int64_t row_bytes = cols * static_cast<int64_t>(sizeof(*Row::data));
  const int64_t rows_ahead =
      passes > 1 ? std::min(kRowBlock, end - begin) : std::max<int64_t>(2, kBytesAhead / row_bytes);
  for (int64_t first = begin; first < end; first += kRowBlock) {
    const int64_t last = std::min(first + kRowBlock, end);
    int64_t pass = 0;
    const auto ahead = [&] {
      return Ahead{rows_ahead / Row::kRowsTogether * cols + pass++ * cols / passes,
                   (Turn<Row>() + passes - 1) / passes};
    };
    int64_t v = 0;
    for (; v + kTile <= num_vectors; v += kTile) DotRows<kTile, Row>(row_at, cols, first, last, x, v, ahead(), out);
    for (; v < num_vectors; ++v) DotRows<1, Row>(row_at, cols, first, last, x, v, ahead(), out);
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

void RoundVectors(int64_t cols, const float* x, int64_t x_stride, Vectors& out) {
  out.shorts.resize(out.count * cols);
  out.scales.resize(out.count);
  for (int64_t v = 0; v < out.count; ++v)
    out.scales[v] = RoundToShorts(cols, x + v * x_stride, out.shorts.data() + v * cols);
}

void DotProducts(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, const Vectors& x, float* y,
                 int64_t y_stride) {
  WithType(w, [&](const auto& row_at) HWY_ATTR {
    using Row = decltype(row_at(0));
    Numbers<typename Row::X> numbers;
    if constexpr (std::is_same_v<typename Row::X, float>)
      numbers = {x.data, x.stride, nullptr};
    else
      numbers = {x.shorts.data(), w.cols, x.scales.data()};
    Dots<Row>(row_at, w.cols, begin, end, x.count, numbers, {bias, y, y_stride});
  });
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(DotProducts);
HWY_EXPORT(RoundVectors);

void prepare_vectors(const WeightMatrix& w, int64_t count, const float* x, int64_t x_stride, Vectors& out) {
  out.count = count;
  out.stride = x_stride;
  out.data = x;
  if (w.type == WeightType::kInt8) HWY_DYNAMIC_DISPATCH(RoundVectors)(w.cols, x, x_stride, out);
}

void matvec(const WeightMatrix& w, int64_t begin, int64_t end, const float* bias, const Vectors& x, float* y,
            int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(DotProducts)(w, begin, end, bias, x, y, y_stride);
}

int64_t rows_per_piece(const WeightMatrix& w) {
  constexpr int64_t kBytes = 32768;  // long enough for memory to be read in order, short enough to share out
  const int64_t weight_bytes = w.type == WeightType::kF32 ? 4 : w.type == WeightType::kBF16 ? 2 : 1;
  return std::max<int64_t>(kBytes / (w.cols * weight_bytes) / 2 * 2, 2);  // pairs of rows stay together
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
