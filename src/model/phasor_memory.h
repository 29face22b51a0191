// The two memory modules of a PMNet layer. Eq. numbers are the paper's; docs/explanation/equations.md lists them all.
#pragma once
#include "config/model_config.h"
#include "model/language_model.h"
#include "model/layers.h"

namespace pmnet {

// Where a token is in the tree, and what it has collected on the way down.
struct MemoryPath {
  ops::Phases phases;  // [B,T,N,M]: states summed root to here; absent above the root
  Tensor group;        // int64 [B,T]: g_h, the active group of this level; negative at padding
};

struct WriteOutcome {
  MemoryPath path;     // this level's state added
  Tensor next_group;   // [B,T]: g_{h+1}
  Tensor weights;      // [B,T,N]: the routing distribution a
  ops::Phases memory;  // [B,G,N,M] after the last token; absent without recurrence
};

struct WriteSettings {
  int64_t num_groups = 1;
  bool recurrence = true;
  bool unconstrained = false;
  ops::OptTensor next_group;  // routes to reuse instead of the argmax
  ops::OptTensor grad_scale;  // [B,G], 1/sqrt(s): Eq. 9
  ops::OptTensor gate;        // [B,T,1], straight_through_gate() of the level above
  double balance = 0;         // weight, per token, of the load-balancing loss of the routes
};

// The features that keys are made of: Phi(path + E) [B,T,N,2M], Phi(E) [B,T,N,2M], or both side by side [B,T,N,4M].
Tensor key_features(MemoryKeys keys, const MemoryPath& path, const Tensor& anchors, bool unconstrained);
// The features that a read takes values from: Phi(path + E) or Phi(path), [B,T,N,2M].
Tensor value_features(MemoryValues values, const MemoryPath& path, const Tensor& anchors, bool unconstrained);

struct MemoryWrite {
  MemoryKeys keys;
  bool tree;  // false: a chain, in which nothing is routed
  RmsNorm norm;
  Linear proj_q, proj_k, proj_v, proj_out;
  Linear proj_k_anchor;  // keys of Phi(E) beside those of Phi(path + E), with MemoryKeys::kBoth

  MemoryWrite(const PmnetConfig& config, const at::TensorOptions& options);
  // hidden [B,T,d], anchors [G,N,M], memory: the level's state before this chunk (absent: zero).
  WriteOutcome forward(const Tensor& hidden, const MemoryPath& path, const Tensor& anchors, const ops::Phases& memory,
                       const WriteSettings& settings) const;
  void visit(const std::string& prefix, const ParameterVisitor& visitor);
};

struct MemoryRead {
  int64_t num_heads;
  RmsNorm norm;
  Linear proj_q, proj_kv, proj_out;
  Linear proj_k_anchor;  // as in MemoryWrite

  MemoryRead(const PmnetConfig& config, const at::TensorOptions& options);
  // key_features() and value_features(), shared by the P layers of a level. `weights` receives a, [B,T,R,N].
  Tensor forward(const Tensor& hidden, const Tensor& key_features, const Tensor& value_features, Tensor* weights) const;
  void visit(const std::string& prefix, const ParameterVisitor& visitor);
};

// Eq. 4: g_{h+1} = g_h N + argmax(a), ties to the lowest index; padding stays padding.
Tensor child_group(const Tensor& group, const Tensor& weights);

// One, with the gradient of the probability that the chosen slot had, [B,T,1].
Tensor straight_through_gate(const Tensor& weights, const Tensor& group, const Tensor& next_group);

// Adds the gradient of N sum_n f_n a_n per token to `weights`, where f_n is the share of the tokens of a group that
// went to its slot n: least when all slots get as many (the load-balancing loss of Switch Transformers).
void balance_routes(const Tensor& weights, const Tensor& group, const Tensor& next_group, int64_t num_groups,
                    double weight);

// How many tokens wrote to each group, float [B,G]; padding does not count.
Tensor count_writes(const Tensor& group, int64_t num_groups);

}  // namespace pmnet
