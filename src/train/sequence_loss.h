// Loss and gradients of whole sequences: in one pass, or in chunks when the activations of one pass do not fit.
#pragma once
#include <functional>

#include "model/language_model.h"

namespace pmnet {

struct SequenceBatch {
  Tensor ids;      // int64 [B,T]
  Tensor targets;  // int64 [B,T]; negative: not scored
};

struct LossOptions {
  ForwardOptions forward;
  int64_t chunk = 0;                    // tokens per chunk; 0: one pass
  double scale = 1.0;                   // gradients are those of scale * (sum of losses)
  const ModelState* initial = nullptr;  // memory carried over from an earlier sample, constant; null: start of text
  ModelState* final_state = nullptr;    // receives the state after the last token, detached
  std::function<void()> between;        // called between chunks; may throw to stop
  std::function<void()> before_last_backward;  // what that pass leaves in .grad is final
  bool count_writes_per_chunk = false;  // wrong on purpose: what the gradients would be without whole-sequence counts
};

struct LossSum {
  double loss = 0;    // sum of -log p in nats
  int64_t bytes = 0;  // how many were scored
};

// Adds the gradients of scale * loss to the .grad of every parameter that requires one.
//
// In chunks this is exact back-propagation through time (not truncated): a forward over the chunks without a graph that
// keeps the streaming state at each boundary, the chosen routes and the write counts of the whole sequence; then, from
// the last chunk to the first, each is recomputed with a graph and fed the gradient of its final state. Memory is one
// chunk's activations plus one streaming state per boundary.
LossSum loss_and_gradients(const LanguageModel& model, const SequenceBatch& batch, const LossOptions& options);

}  // namespace pmnet
