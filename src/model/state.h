// What a model remembers between chunks: everything it needs of the past and nothing else. One State holds a batch of
// independent streams, each at its own position. forward() replaces the tensors and writes into none that anybody else
// holds, so a copy of a State is a fork and autograd can run through a chain of chunks.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace pmnet {

using at::Tensor;

// Keys (after norm and rotation) and values of the most recent tokens, [B,S,A_kv,Dh]. The newest is last; a stream
// younger than S leaves the front unused.
struct AttentionState {
  Tensor keys, values;
};

// For decoding, in place where nobody else holds the tensors. append_place adds one token, yet to be written, to
// `tokens`, which then holds at most `window` of them (0: all); forget_oldest leaves the window - 1 that the next byte
// will see.
void append_place(Tensor& tokens, int64_t window);
void forget_oldest(AttentionState& state, int64_t window);

// Mamba: the last conv_kernel - 1 inputs of the convolution [B,E,K-1] and the state h [B,E,S].
struct SsmState {
  Tensor conv, hidden;
};

struct State {
  Tensor positions;                       // int64 [B], bytes read so far
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
  State detached(bool requires_grad = false) const;
  // One stream, or several stacked into a batch (padded at the front to equal length).
  State row(int64_t index) const;
  static State stack(const std::vector<State>& rows);
};

}  // namespace pmnet
