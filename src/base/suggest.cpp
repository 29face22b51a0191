#include "base/suggest.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace pmnet {

namespace {

// Optimal string alignment distance over three rows of the dynamic programme: a swap of neighbours counts as one.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> two_above(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    two_above.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t least = std::numeric_limits<size_t>::max();
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    const size_t bearable = std::max<size_t>(1, std::max(word.size(), candidate.size()) / 3);
    if (distance <= bearable && distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string nearest = suggest(word, candidates);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

}  // namespace pmnet
