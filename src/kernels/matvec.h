// Products of a weight matrix with a few vectors, for decoding. Up to a dozen vectors they are bound by how fast the
// weights can be read, so each weight is read once, in the type it is stored in, and used for all vectors.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/scratch.h"

namespace pmnet::kernels {

enum class WeightType { kF32, kBF16, kInt8 };

// [rows, cols]: float32 row-major, bf16 and int8 as integers in panels (kernels/weight_packing.h), to be multiplied by
// one number per row. Its rows may be some of those in memory.
struct WeightMatrix {
  WeightType type;
  const void* data;
  int64_t first_row;    // of those at `data`
  const float* scales;  // [rows]; null for float32
  int64_t cols;
};

// The vectors of one product, made ready once for all the pieces that its rows are cut into.
struct Vectors {
  int64_t count, stride;
  const float* data;
  // For integers: rounded to 16 bits, [count, columns of whole registers], to be multiplied by `scales` [count].
  Scratch<int16_t> shorts;
  std::vector<float> scales;
};

// `out` may hold the vectors of an earlier product, whose memory is used again.
void place_vectors(const WeightMatrix& w, int64_t count, const float* x, int64_t x_stride, Vectors& out);
// Of the vectors placed there, one that will meet integers: they all have to be rounded.
void round_vector(const WeightMatrix& w, int64_t vector, Vectors& out);

// Where memory is waited for, which answers faster to several streams than to one: so many rows are read at once.
constexpr int64_t kStreams = 4;

// Rows [begin, begin + count) of a product; unless `apart` is 0, also as many from begin + apart, begin + 2 apart, ...
// on: one for each stream.
struct RowPiece {
  int64_t begin, count, apart;
};

// How the rows of a product are cut into pieces for threads to share out. The pieces of a group, one after the other,
// read on in the same streams, which the hardware then foresees. Rows that make no whole group come last.
struct RowPieces {
  int64_t num_rows, piece_rows;  // the latter per stream
  int64_t groups, group_pieces;

  int64_t count() const;
  RowPiece piece(int64_t i) const;

 private:
  int64_t streamed_rows() const { return groups * group_pieces * kStreams * piece_rows; }
};

RowPieces cut_rows(const WeightMatrix& w, int64_t num_rows, int64_t num_vectors, int64_t num_threads);

// y[v, row] = sum_c w[row, c] x[v, c] + bias[row] for the rows of a piece and all vectors. bias may be null.
void matvec(const WeightMatrix& w, const RowPiece& rows, const float* bias, const Vectors& x, float* y,
            int64_t y_stride);

}  // namespace pmnet::kernels
