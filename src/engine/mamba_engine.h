// The Mamba baseline without gradients.
#pragma once
#include <vector>

#include "engine/cpu_engine.h"

namespace pmnet {

class MambaEngine : public CpuEngine {
 public:
  explicit MambaEngine(const EngineWeights& weights);
  EngineState initial_state(int64_t batch) const override;

 private:
  struct Layer {
    NormWeights norm;
    Projection in, x, dt, out;
    Tensor a;                       // [E,S]: -exp(A_log)
    Tensor d;                       // [E]
    Tensor conv_weight, conv_bias;  // [K,E], [E] (undefined: none)
  };
  void run_layers(Pass& pass) const override;
  // The mixer: x += W_out scan(conv(W_in norm(x))).
  void convolve(Pass& pass, const Layer& layer, int64_t index) const;  // u = silu(conv(input))
  void select(Pass& pass, const Layer& layer) const;                   // delta, B and C of every token
  void scan(Pass& pass, const Layer& layer, int64_t index) const;      // h = exp(delta A) h + delta B u; y = C h + D u

  MambaConfig c_;
  std::vector<Layer> layers_;
};

}  // namespace pmnet
