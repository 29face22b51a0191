// Where engines take their weights from: a model, or a folder. Every weight is packed once, however many engines (with
// different switches) are made of it.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "config/model_config.h"
#include "engine/packed_weight.h"
#include "engine/quantize.h"
#include "model/language_model.h"
#include "model/model_folder.h"

namespace pmnet {

class EngineWeights {
 public:
  // Those of a model in float32, without a copy.
  explicit EngineWeights(const LanguageModel& model);
  // Rounded to a smaller type; the model is taken apart, so that its weights need not be held twice.
  EngineWeights(std::unique_ptr<LanguageModel> model, WeightType type);
  // Those of a folder, in the type they are stored in.
  explicit EngineWeights(const std::shared_ptr<const ModelFolder>& folder);

  const ModelConfig& config() const;
  // Parameters by their checkpoint names.
  Tensor read_float(const std::string& name) const;
  PackedWeight read_packed(const std::string& name) const;
  // Identifies the weights. Computed when first asked for, as only memory files need it.
  std::string hash() const;

 private:
  struct Source;
  EngineWeights(const ModelConfig& config, std::function<StoredWeight(const std::string& name)> read,
                std::function<std::string()> hash);

  std::shared_ptr<Source> source_;
};

}  // namespace pmnet
