#include "data/carry_rows.h"

#include <algorithm>

#include "base/hash.h"
#include "data/permutation.h"

namespace pmnet {

CarryRows::CarryRows(const DocumentSet& documents, const BatchOptions& options, const SourceMix& mix, uint64_t key)
    : mix_(mix), rows_(static_cast<uint64_t>(options.rows)), key_(key), shuffle_(options.shuffle), walkers_(rows_) {
  const auto context = static_cast<uint64_t>(options.context);
  const auto windows_of = [&](const Document& document) {
    return windows_in(options.framing.tokens(document), context);
  };
  for (const DocumentSource& source : documents.sources)
    for (const Document& document : source.documents) total_windows_ += windows_of(document);
  const uint64_t longest = options.carry_windows > 0 ? static_cast<uint64_t>(options.carry_windows)
                                                     : std::max<uint64_t>(1, (total_windows_ + rows_ - 1) / rows_);
  for (const DocumentSource& source : documents.sources) {
    std::vector<Part>& parts = parts_.emplace_back();
    for (uint64_t d = 0; d < source.documents.size(); ++d) {
      const uint64_t windows = windows_of(source.documents[d]);
      for (uint64_t first = 0; first < windows; first += longest)
        parts.push_back({d, first, std::min(longest, windows - first)});
    }
  }
}

CarryRows::Found CarryRows::part_of(uint64_t row, uint64_t turn) const {
  const SourceMix::Place place = mix_.locate(turn * rows_ + row);
  const std::vector<Part>& parts = parts_[place.source];
  const uint64_t epoch = place.number / parts.size();
  const uint64_t in_epoch = place.number % parts.size();
  const Permutation shuffled(parts.size(), splitmix64(splitmix64(key_, place.source), epoch));
  return {place.source, &parts[shuffle_ ? shuffled(in_epoch) : in_epoch]};
}

CarryRows::Place CarryRows::locate(uint64_t step, uint64_t row) {
  Walker& walker = walkers_[row];
  if (step < walker.first_step) walker = {};
  Found found = part_of(row, walker.turn);
  while (step - walker.first_step >= found.part->windows) {
    walker.first_step += found.part->windows;
    ++walker.turn;
    found = part_of(row, walker.turn);
  }
  const uint64_t inside = step - walker.first_step;
  return {found.source, found.part->document, found.part->first_window + inside, inside > 0};
}

}  // namespace pmnet
