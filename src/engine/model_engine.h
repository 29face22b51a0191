// The slow, obvious twin of the other engines: runs the training model itself, on any device and dtype.
#pragma once
#include <memory>

#include "engine/engine.h"

namespace pmnet {

class ModelEngine : public Engine {
 public:
  // `weights` are the model's, for their config and hash.
  ModelEngine(const EngineWeights& weights, std::shared_ptr<const LanguageModel> model, const MemorySwitches& switches);

  EngineState initial_state(int64_t batch) const override;
  Tensor logits(const Tensor& hidden) const override;

 private:
  Tensor run(const Tensor& ids, EngineState* state, const PassOptions& options) const override;

  std::shared_ptr<const LanguageModel> model_;
  MemorySwitches switches_;
};

}  // namespace pmnet
