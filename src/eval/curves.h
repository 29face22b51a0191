// An evaluation -> bits per byte, over all documents or by position, with intervals over documents.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/statistics.h"
#include "eval/evaluate.h"

namespace pmnet {

// sum(amounts) / sum(counts) over independent documents, with Student's t on the residuals (the ratio linearised, as in
// cluster sampling): long documents weigh more, and what varies is the document, not the byte. Documents that count
// nothing take no part.
Interval ratio_interval(std::span<const double> amounts, std::span<const double> counts, double level = 0.95);

struct PositionPoint {
  int64_t first = 0, last = 0;  // positions, from 1
  int64_t bytes = 0;            // scored there, all documents together
  Interval bits_per_byte;
};
using PositionCurve = std::vector<PositionPoint>;

enum class CurveKind {
  kOctaves,     // positions 2^k .. 2^(k+1)-1
  kWindows,     // equal stretches
  kLogWindows,  // those joined to about four per octave, for a logarithmic axis
  kCumulative,  // from the first position to the end of each window
};

// Bits per byte of a candidate; with `base` by how much more it needs than that one, over the positions of documents
// that both have scored.
Interval mean_bits(const Evaluation& evaluation, size_t candidate, std::optional<size_t> base = std::nullopt);
// The same for some positions only, in whole windows.
struct Positions {
  int64_t first = 1, last = 0;  // 0: to the end
};
Interval mean_bits_between(const Evaluation& evaluation, const Positions& positions, size_t candidate,
                           std::optional<size_t> base = std::nullopt);
// How much more bits per byte a candidate needs at one stretch of positions than at another, document by document:
// what differs between documents but not within them drops out.
Interval change_between(const Evaluation& evaluation, size_t candidate, const Positions& from, const Positions& to);

PositionCurve position_curve(const Evaluation& evaluation, CurveKind kind, size_t candidate,
                             std::optional<size_t> base = std::nullopt);

// Bits (not per byte) by which a candidate has fallen behind `base` up to the end of each window, for each document
// that gets there.
struct ExcessPoint {
  int64_t position = 0;
  std::vector<double> bits;  // one per document
};
std::vector<ExcessPoint> cumulative_excess(const Evaluation& evaluation, size_t candidate, size_t base);

}  // namespace pmnet
