// What each byte of a stream costs a model that has read everything before it.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "model/language_model.h"

namespace pmnet {

// A batch of independent streams, each at its own position; all begin with BOS, which is fed and not scored. Only the
// state of the past is held.
class StreamScorer {
 public:
  explicit StreamScorer(std::shared_ptr<const LanguageModel> model, const MemorySwitches& switches = {},
                        int64_t rows = 1);

  // The next ids of each row (none is allowed), in one pass; gives the bits of each. The inside of the pass goes to
  // `trace`, where the input of a step is the id before the scored one.
  std::vector<std::vector<double>> score(const std::vector<std::span<const int64_t>>& next, Trace* trace = nullptr);
  std::vector<double> score(std::span<const int64_t> next);  // of a single row

  // Row i goes on where row from[i] was, or starts a new stream where that is kNewRow.
  static constexpr int64_t kNewRow = -1;
  void arrange(const std::vector<int64_t>& from);

  int64_t rows() const { return static_cast<int64_t>(last_ids_.size()); }
  const State& state() const { return state_; }
  const LanguageModel& model() const { return *model_; }

 private:
  State fresh_state(int64_t rows) const;

  std::shared_ptr<const LanguageModel> model_;
  MemorySwitches switches_;
  State state_;
  std::vector<int64_t> last_ids_;  // scored (or BOS) but not fed yet: the input that predicts what comes next
};

// UserError when the ids of a model are not bytes; `name` opens the sentence.
void require_byte_vocabulary(const LanguageModel& model, const std::string& name);

}  // namespace pmnet
