// Causal self-attention with rotary positions: sliding or full, grouped queries, per-head norm of q and k where the
// model has it (PMNet) and none where it has not (Llama).
#pragma once
#include <string>

#include "model/language_model.h"
#include "model/layers.h"
#include "model/rope.h"
#include "model/state.h"

namespace pmnet {

struct AttentionShape {
  int64_t width;         // d
  int64_t num_heads;     // A
  int64_t num_kv_heads;  // A_kv
  int64_t head_dim;      // d_h
  int64_t window;        // w; 0: full attention
  bool bias;
  bool norm_heads;
  double norm_eps;
  double dropout;
};

// What one pass gives every layer's attention.
struct AttentionPass {
  const RotaryTable& rotary;
  const Tensor& positions;  // int64 [B], of the first token
  const ForwardOptions& options;
};

struct Attention {
  AttentionShape shape;
  Linear q_proj, k_proj, v_proj, o_proj;
  RmsNorm q_norm, k_norm;  // unused unless shape.norm_heads

  Attention(const AttentionShape& shape, const at::TensorOptions& options);
  // x [B,T,d] before its norm. `past` (null: none) is replaced by what the next chunk needs.
  Tensor forward(const Tensor& x, const RmsNorm& norm, int64_t layer, const AttentionPass& pass,
                 AttentionState* past) const;
  void visit(const std::string& prefix, const ParameterVisitor& visitor);
  AttentionState initial_state(int64_t batch, const at::TensorOptions& options) const;
};

}  // namespace pmnet
