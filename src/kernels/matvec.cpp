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

// Numbers of a vector that meets integers, none of a register left out.
int64_t EvenColumns(int64_t cols) { return RegistersPerPanel(cols) * kRegisterColumns; }

void RoundVector(const WeightMatrix& w, int64_t vector, Vectors& out) {
  const int64_t even = EvenColumns(w.cols);
  const float longest = w.type == WeightType::kBF16 ? kLongestBesideShorts : kLongestBesideBytes;
  int16_t* shorts = out.shorts.data() + vector * even;
  out.scales[vector] = round_to_shorts(w.cols, out.data + vector * out.stride, longest, Factor::kAny, shorts);
  if (even > w.cols) shorts[w.cols] = 0;
}

void Products(const WeightMatrix& w, const RowPiece& rows, const float* bias, const Vectors& x, float* y,
              int64_t y_stride) {
  const Results out{bias, y, y_stride};
  if (w.type == WeightType::kF32)
    return RowProducts(static_cast<const float*>(w.data) + w.first_row * w.cols, w.cols, rows, x.count, x.data,
                       x.stride, out);
  const CellRows cells{reinterpret_cast<const Cell*>(x.shorts.data()), RegistersPerPanel(w.cols), x.scales.data()};
  if (w.type == WeightType::kBF16)
    PanelProducts<int16_t>(w, rows, x.count, cells, out);
  else
    PanelProducts<int8_t>(w, rows, x.count, cells, out);
}

// Pieces long enough for memory to be read in order, short enough to share out.
RowPieces CutRows(const WeightMatrix& w, int64_t num_rows, int64_t num_vectors, int64_t num_threads) {
  constexpr int64_t kBytes = 32768;
  const bool rows_alone = w.type == WeightType::kF32, bf16 = w.type == WeightType::kBF16;
  const int64_t most_streamed = rows_alone ? kTile : bf16 ? kMostStreamed<int16_t> : kMostStreamed<int8_t>;
  const bool streams = num_vectors <= most_streamed && (rows_alone || w.first_row % PanelRows() == 0);
  // What is never cut: a panel, a row, or the two rows that many vectors meet at once.
  const int64_t unit = !rows_alone ? PanelRows() : streams ? 1 : 2;
  const int64_t unit_bytes = rows_alone ? unit * w.cols * 4 : PanelWeights(w.cols) * (bf16 ? 2 : 1);
  const int64_t groups = streams ? std::min(num_threads, num_rows / (kStreams * unit)) : 0;
  if (groups == 0) return {num_rows, std::max<int64_t>(kBytes / unit_bytes, 1) * unit, 0, 0};
  const int64_t stream_units = num_rows / (groups * kStreams * unit);
  const int64_t piece_units = std::clamp<int64_t>(kBytes / (kStreams * unit_bytes), 1, stream_units);
  return {num_rows, piece_units * unit, groups, stream_units / piece_units};
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(CutRows);
HWY_EXPORT(EvenColumns);
HWY_EXPORT(Products);
HWY_EXPORT(RoundVector);

void place_vectors(const WeightMatrix& w, int64_t count, const float* x, int64_t x_stride, Vectors& out) {
  out.count = count;
  out.stride = x_stride;
  out.data = x;
  if (w.type == WeightType::kF32) return;
  out.shorts.resize(count * HWY_DYNAMIC_DISPATCH(EvenColumns)(w.cols));
  out.scales.resize(count);
}

void round_vector(const WeightMatrix& w, int64_t vector, Vectors& out) {
  HWY_DYNAMIC_DISPATCH(RoundVector)(w, vector, out);
}

void matvec(const WeightMatrix& w, const RowPiece& rows, const float* bias, const Vectors& x, float* y,
            int64_t y_stride) {
  HWY_DYNAMIC_DISPATCH(Products)(w, rows, bias, x, y, y_stride);
}

int64_t RowPieces::count() const {
  return groups * group_pieces + (num_rows - streamed_rows() + piece_rows - 1) / piece_rows;
}

RowPiece RowPieces::piece(int64_t i) const {
  if (i < groups * group_pieces) {
    const int64_t apart = group_pieces * piece_rows;
    return {i / group_pieces * kStreams * apart + i % group_pieces * piece_rows, piece_rows, apart};
  }
  const int64_t begin = streamed_rows() + (i - groups * group_pieces) * piece_rows;
  return {begin, std::min(piece_rows, num_rows - begin), 0};
}

RowPieces cut_rows(const WeightMatrix& w, int64_t num_rows, int64_t num_vectors, int64_t num_threads) {
  return HWY_DYNAMIC_DISPATCH(CutRows)(w, num_rows, num_vectors, num_threads);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
