// The one interface of PMNet and its baselines: ids in, hidden states out, with the state of the past in and out.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "config/model_config.h"
#include "model/layers.h"
#include "model/state.h"

namespace pmnet {

// The switches of the experiments; they change a pass, not the weights. Only PMNet heeds them.
struct MemorySwitches {
  std::optional<bool> recurrence = std::nullopt;  // absent: as the configuration says (memory_cumsum)
  ZeroEmbeddings zero_embeddings = ZeroEmbeddings::kNone;
  bool normalize_gradient = true;  // segment-aware normalisation, Eq. 9, in training
  bool unconstrained = false;      // Phi(theta) = [theta, 0], sums without wrapping
  // Ours, not the paper's; in training alone, and of its gradients alone. The argmax of Eq. 4 passes none.
  bool straight_through = false;  // what a token writes to and reads from a group also teaches the choice of that group
  double route_balance = 0;       // weight, per token, of the load-balancing loss of the routes

  // Whether the memory embeddings of a level are left out.
  bool zeroes(int64_t level, int64_t num_levels) const {
    return zero_embeddings == ZeroEmbeddings::kAll || (zero_embeddings == ZeroEmbeddings::kRoot && level == 0) ||
           (zero_embeddings == ZeroEmbeddings::kLeaf && level == num_levels - 1);
  }
};

// What attention dropout depends on besides the position.
struct DropoutKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  std::vector<int64_t> samples;  // one per row; empty: 0, 1, 2, ...
};

struct ForwardOptions {
  bool training = false;  // dropout and segment-aware normalisation are on
  DropoutKey dropout;
  MemorySwitches memory;
  std::optional<Tensor> lengths;  // int64 [B]: the rest of each row is padding, which neither writes nor counts

  // For recomputing a chunk of a longer sequence: the groups chosen before (per level [B,T]) and how many tokens of the
  // whole sequence wrote to each group (per level [B,G]).
  const std::vector<Tensor>* routes = nullptr;
  const std::vector<Tensor>* write_counts = nullptr;
};

// The inside of a pass, for who asks. Everything is detached.
struct Trace {
  std::vector<Tensor> hidden;         // [B,T,d] after each layer
  std::vector<int64_t> num_groups;    // per level: G
  std::vector<Tensor> groups;         // per level [B,T]: the group each token wrote to
  std::vector<Tensor> routes;         // per level [B,T]: the group chosen for the next level
  std::vector<Tensor> route_weights;  // per level [B,T,N]
  std::vector<Tensor> read_weights;   // per layer [B,T,R,N]
  std::vector<ops::Phases> path;      // per level [B,T,N,M]: what the reads of that level see, without embeddings
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  // The hidden states after the final norm, [B,T,d]. `state` (null: start of text, nothing kept) is replaced by the
  // state after the last token.
  virtual Tensor hidden(const Tensor& ids, ModelState* state, const ForwardOptions& options, Trace* trace) const = 0;
  virtual ModelState initial_state(int64_t batch) const = 0;
  virtual const Tensor& head_weight() const = 0;  // [V,d]; the embedding when tied
  virtual void visit(const ParameterVisitor& visitor) = 0;
  virtual void initialize(uint64_t seed) = 0;
  virtual ModelConfig model_config() const = 0;

  Tensor logits(const Tensor& ids, ModelState* state = nullptr, const ForwardOptions& options = {},
                Trace* trace = nullptr) const;
  // -log p of each target [B,T]; negative targets score zero.
  Tensor losses(const Tensor& ids, const Tensor& targets, ModelState* state = nullptr,
                const ForwardOptions& options = {}) const;
  int64_t vocab_size() const { return head_weight().size(0); }
  std::vector<std::pair<std::string, Tensor>> named_parameters() const;
  void require_gradients(bool on);
};

// Random, uninitialised weights of the given configuration.
std::unique_ptr<LanguageModel> make_model(const ModelConfig& config, at::ScalarType dtype = at::kFloat);

// Targets for next-byte prediction: ids shifted by one, -1 at the end of each row.
Tensor next_byte_targets(const Tensor& ids);

// The dropout keys of one layer, int64 [B]: a hash of (seed, step, sample, layer).
Tensor dropout_row_keys(const DropoutKey& key, int64_t batch, int64_t layer);

}  // namespace pmnet
