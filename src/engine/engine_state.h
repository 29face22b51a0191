// What an engine keeps between passes: everything it needs of the past, and nothing else. A batch is a list of
// independent sequences, each at its own position; a copy of a state is a fork with its own memory.
#pragma once
#include <vector>

#include "engine/kv_window.h"
#include "model/state.h"

namespace pmnet {

struct SequenceState {
  int64_t position = 0;             // tokens read so far
  std::vector<int64_t> recent;      // codes of the latest max_ngram - 1 tokens, oldest first
  std::vector<KvWindow> attention;  // per layer; empty in Mamba
  std::vector<Tensor> memory;       // per level [1,G,N,M]: int64 turns, or angles where sums do not wrap; PMNet only
  std::vector<SsmState> ssm;        // per layer; Mamba only

  SequenceState() = default;
  SequenceState(const SequenceState& other);
  SequenceState& operator=(const SequenceState& other) { return *this = SequenceState(other); }
  SequenceState(SequenceState&&) = default;
  SequenceState& operator=(SequenceState&&) = default;

  int64_t bytes() const;
};

using EngineState = std::vector<SequenceState>;

int64_t state_bytes(const EngineState& state);

// To a model's batch of tensors (shorter windows padded at the front) and back, for files and for running the model
// itself. `fresh` is the engine's initial state of one sequence.
ModelState to_model_state(const EngineState& state);
EngineState from_model_state(const ModelState& state, const SequenceState& fresh);

// The memory of one level before a pass changes it, to be restored if the pass fails: every group that `groups` names.
class MemoryBackup {
 public:
  // memory [1,G,N,M] int64 outlives this object.
  void save(Tensor& memory, const int64_t* groups, int64_t count);
  void restore();  // all that was saved, latest first
  void clear() { saved_.clear(), values_.clear(); }

 private:
  struct Saved {
    int64_t *from, count;
  };
  std::vector<Saved> saved_;
  std::vector<int64_t> values_;
};

}  // namespace pmnet
