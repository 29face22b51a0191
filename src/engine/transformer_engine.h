// The Transformer baseline without gradients.
#pragma once
#include <vector>

#include "engine/cpu_engine.h"

namespace pmnet {

class TransformerEngine : public CpuEngine {
 public:
  explicit TransformerEngine(const EngineWeights& weights);
  EngineState initial_state(int64_t batch) const override;

 private:
  struct Layer {
    AttentionWeights attention;
    MlpWeights mlp;
  };
  void run_layers(Pass& pass) const override;

  TransformerConfig c_;
  std::vector<Layer> layers_;
};

}  // namespace pmnet
