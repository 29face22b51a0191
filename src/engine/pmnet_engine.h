// PMNet without gradients: the column of steps of model/pmnet.cpp on the buffers of engine/activations.h.
#pragma once
#include <optional>
#include <vector>

#include "engine/cpu_engine.h"

namespace pmnet {

class PmnetEngine : public CpuEngine {
 public:
  PmnetEngine(const EngineWeights& weights, const MemorySwitches& switches);

  EngineState initial_state(int64_t batch) const override;

 private:
  struct WriteWeights {
    NormWeights norm;
    Projection q, k, v, out;
    Tensor anchor_keys;  // see make_anchor_keys()
  };
  struct ReadWeights {
    NormWeights norm;
    Projection q, kv, out;  // kv: the rows of the keys, then those of the values
    Tensor anchor_keys;
  };
  struct Layer {
    AttentionWeights attention;
    MlpWeights mlp;
    std::optional<WriteWeights> write;
    std::optional<ReadWeights> read;
  };

  void run_layers(Pass& pass) const override;
  int64_t vectors_per_token() const override { return std::max<int64_t>(c_.num_memory, 1); }

  void write(Pass& pass, const WriteWeights& w, int64_t level) const;  // Eq. 1-6: one level down the tree
  void read(Pass& pass, const ReadWeights& w) const;                   // Eq. 7-8: x += what the level's memory holds

  // Eq. 2: Phi(path + anchors); absent ones are zero.
  void find_features(Pass& pass, const Tensor* anchors, const int32_t* path, Buffer<float>& features) const;
  void route(Pass& pass, const WriteWeights& w) const;          // Eq. 1-3, and W_v y for Eq. 5
  void route_at_root(Pass& pass, const WriteWeights& w) const;  // the same with keys all tokens share
  void choose_children(Pass& pass) const;                       // Eq. 4
  void accumulate(Pass& pass, int64_t level) const;             // Eq. 6
  // Eq. 1-3 and 7 for tokens [first, first + count): the weights of R heads from queries a.q and keys W_k Phi + b_k.
  // `beside` are products that do not depend on it and run together with the keys.
  void score(Pass& pass, const Projection& keys, const Tensor& anchor_keys, int64_t heads, int64_t first, int64_t count,
             std::vector<Product> beside) const;
  // The part W Phi(E) of the keys that depends on the group alone, [G,N,R*M], for the module of that prefix. Undefined
  // when all of a key comes from the state.
  Tensor make_anchor_keys(const EngineWeights& weights, const std::string& module, const Projection& keys,
                          int64_t heads, int64_t level) const;

  PmnetConfig c_;
  bool recurrence_;
  std::vector<Layer> layers_;
  std::vector<Tensor> anchors_;  // per level int32 [G,N,M]: the memory embeddings as turns
};

}  // namespace pmnet
