#pragma once
#include <cstdint>
#include <vector>

#include "data/batcher.h"

namespace pmnet {

// The schedule of SampleMode::kCarry. Documents, long ones in parts, form one endless shuffled and mixed sequence; row
// r of R walks through parts r, r+R, r+2R, ... Where a row is at a step follows from the lengths of its parts alone.
class CarryRows {
 public:
  CarryRows(const DocumentSet& documents, const BatchOptions& options, const SourceMix& mix, uint64_t key);

  struct Place {
    size_t source;
    uint64_t document;
    uint64_t window;
    bool continues;
  };
  // `step` counts from the stage's first.
  Place locate(uint64_t step, uint64_t row);
  uint64_t windows_per_epoch() const { return total_windows_; }

 private:
  struct Part {
    uint64_t document;
    uint64_t first_window;
    uint64_t windows;
  };
  struct Walker {
    uint64_t turn = 0;        // how many parts the row has finished
    uint64_t first_step = 0;  // when it began its current part
  };
  struct Found {
    size_t source;
    const Part* part;
  };
  Found part_of(uint64_t row, uint64_t turn) const;

  SourceMix mix_;
  uint64_t rows_, key_;
  bool shuffle_;
  uint64_t total_windows_ = 0;
  std::vector<std::vector<Part>> parts_;  // per source
  std::vector<Walker> walkers_;           // per row: where the last call left it
};

}  // namespace pmnet
