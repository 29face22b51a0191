// The cost in bits of every byte of a text, given all bytes before it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session.h"

namespace pmnet {

struct ScoreOptions {
  int64_t chunk = 0;                                  // steps per pass; 0: all in one pass
  std::optional<Tensor> lengths = std::nullopt;       // int64 [B]: the rest of each row is padding
  std::function<void()> before_pass = {};             // may throw to stop
  std::function<void(const Trace&)> after_pass = {};  // when set, intermediate results are recorded for it
};

// Reads a batch of independent texts without gradients. The state of each row is carried from call to call, so a text
// may arrive in pieces of any size. Every row starts with BOS, which is fed and not scored.
class Scorer {
 public:
  explicit Scorer(std::shared_ptr<const Engine> engine, int64_t rows = 1);

  // Bits of the next ids of each row; rows may differ in length and be empty. The input of a step is the id before the
  // scored one, so the last id of a call is fed by the next call.
  std::vector<std::vector<double>> score(const std::vector<std::span<const int64_t>>& next,
                                         const ScoreOptions& options = {});
  std::vector<double> score(std::string_view bytes, const ScoreOptions& options = {});  // of a single row

  // The form for prepared batches: -ln p of each target [B,T] after reading ids [B,T]; negative targets cost nothing.
  Tensor losses(const Tensor& ids, const Tensor& targets, const ScoreOptions& options = {});

  // Row i continues row from[i], or starts a new text where that is kNewRow.
  static constexpr int64_t kNewRow = -1;
  void arrange(const std::vector<int64_t>& from);

  // Makes a row's state that of an empty text; its newest id stays the next input.
  void clear_state(int64_t row) { state_.at(row) = engine_->initial_state(1)[0]; }

  int64_t rows() const { return static_cast<int64_t>(last_ids_.size()); }
  const EngineState& state() const { return state_; }

 private:
  std::shared_ptr<const Engine> engine_;
  EngineState state_;
  std::vector<int64_t> last_ids_;  // the newest id of each row, scored (or BOS) but not fed yet
};

// Bits of the next bytes of a session of one sequence, which reads them. A session that has read nothing is fed BOS
// first; one with a restored memory continues from there.
std::vector<double> score_next(Session& session, std::string_view bytes);

// Bytes are their own ids.
std::vector<int64_t> byte_ids(std::string_view bytes);

// Mean over a whole text, read from an empty memory.
double bits_per_byte(std::shared_ptr<const Engine> engine, std::string_view text, int64_t chunk = 1024);

// UserError when the ids of a model are not bytes; `name` opens the sentence.
void require_byte_vocabulary(const Engine& engine, const std::string& name);

}  // namespace pmnet
