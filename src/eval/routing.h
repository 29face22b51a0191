// How the tree of memories is used: which groups the tokens are sent to, and how often that changes.
#pragma once
#include <cstdint>
#include <vector>

#include "model/language_model.h"

namespace pmnet {

struct LevelUse {
  std::vector<int64_t> tokens;  // per group of the next level (or slot of a leaf): how many were sent there
  int64_t changes = 0;          // tokens sent elsewhere than the one before
  int64_t pairs = 0;            // of neighbours that were compared

  int64_t total() const;
  double entropy() const;  // bits; at most the logarithm of the number of groups
  double change_rate() const { return pairs > 0 ? static_cast<double>(changes) / static_cast<double>(pairs) : 0; }
};

class RoutingUse {
 public:
  // A pass of one stream that goes on where the last one ended.
  void add(const Trace& trace);
  // What comes next is another stream.
  void next_stream() { last_.clear(); }

  const std::vector<LevelUse>& levels() const { return levels_; }

 private:
  std::vector<LevelUse> levels_;
  std::vector<int64_t> last_;  // per level: where the last token was sent; empty at the start of a stream
};

}  // namespace pmnet
