// How the tree of memories is used: which groups the tokens are routed to, and how often the group changes.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "model/language_model.h"

namespace pmnet {

// One level of the tree.
class LevelRouting {
 public:
  explicit LevelRouting(int64_t groups) : tokens_(static_cast<size_t>(groups), 0) {}

  void add(int64_t group);             // where the next token of a text is routed
  void next_text() { last_.reset(); }  // the next token belongs to another text: no change is counted for it

  const std::vector<int64_t>& tokens() const { return tokens_; }  // per group
  int64_t total() const;
  int64_t used() const;          // groups with at least one token
  double entropy() const;        // of the load in bits; at most log2 of the number of groups
  double largest_share() const;  // of the tokens in one group
  int64_t changes() const { return changes_; }
  double change_rate() const;  // share of the tokens routed to another group than the token before

 private:
  std::vector<int64_t> tokens_;
  int64_t changes_ = 0, pairs_ = 0;  // pairs of neighbouring tokens that were compared
  std::optional<int64_t> last_;
};

// All levels: the group that each token chose for the next level (at a leaf: the slot).
class RoutingStatistics {
 public:
  void add(const Trace& trace);  // a pass of one text that continues where the last pass ended
  void next_text();

  const std::vector<LevelRouting>& levels() const { return levels_; }

 private:
  std::vector<LevelRouting> levels_;
};

}  // namespace pmnet
