// What a model remembers between chunks: everything it needs of the past and nothing else. One ModelState holds a batch
// of independent sequences, each at its own position. A forward pass replaces its tensors and writes into none, so a
// copy is a fork, and autograd can run through a chain of chunks.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace pmnet {

using at::Tensor;

// Keys (after norm and rotation) and values of the most recent tokens, [B,S,A_kv,Dh]. The newest is last; a sequence
// younger than S leaves the front unused.
struct AttentionState {
  Tensor keys, values;
};

// Mamba: the last conv_kernel - 1 inputs of the convolution [B,E,K-1] and the state h [B,E,S].
struct SsmState {
  Tensor conv, hidden;
};

struct ModelState {
  Tensor positions;                       // int64 [B], bytes read so far
  Tensor recent_codes;                    // int64 [B,max_ngram-1], 1 + id of the latest bytes; undefined: no n-grams
  std::vector<AttentionState> attention;  // per layer; empty in Mamba
  std::vector<ops::Phases> memory;        // per level, [B,G,N,M]; empty in the baselines
  std::vector<SsmState> ssm;              // per layer; Mamba only

  int64_t batch() const { return positions.size(0); }
  int64_t bytes() const;

  // Every tensor with a name, for saving; `turns` rather than angles where both are there.
  void visit(const std::function<void(const std::string& name, Tensor& tensor)>& visitor);
  // The floating-point tensors that carry gradients from chunk to chunk, in a fixed order.
  std::vector<Tensor> differentiable() const;

  // The same state cut off from any graph. With `requires_grad`, its differentiable tensors are new leaves.
  ModelState detached(bool requires_grad = false) const;
  // One sequence, or several stacked into a batch (padded at the front to equal length).
  ModelState row(int64_t index) const;
  static ModelState stack(const std::vector<ModelState>& rows);
};

}  // namespace pmnet
