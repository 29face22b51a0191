#include "engine/engine_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "config/presets.h"

namespace pmnet {
namespace {

// Within the expression that takes the model apart, as callers write make_engine(EngineWeights(std::move(model),
// type)): the memory of every weight is free as soon as the weight is packed, so that no model is held twice.
TEST(EngineWeights, FreesEachWeightOfAModelItTakesApart) {
  for (const WeightType type : {WeightType::kBF16, WeightType::kInt8}) {
    std::unique_ptr<LanguageModel> model = make_model(preset("tiny"));
    model->initialize(1);
    std::vector<std::pair<std::string, c10::weak_intrusive_ptr<c10::StorageImpl>>> linear;
    for (const auto& [name, parameter] : model->named_parameters())
      if (is_stored_smaller(name)) linear.emplace_back(name, parameter.storage().getWeakStorageImpl());
    ASSERT_FALSE(linear.empty());
    const auto pack_all = [&](const EngineWeights& weights) {
      for (const auto& [name, memory] : linear) {
        EXPECT_FALSE(memory.expired()) << name;
        weights.read_packed(name);
        EXPECT_TRUE(memory.expired()) << name;
      }
    };
    pack_all(EngineWeights(std::move(model), type));
  }
}

TEST(EngineWeights, PacksAWeightOnce) {
  std::unique_ptr<LanguageModel> model = make_model(preset("tiny"));
  model->initialize(1);
  const EngineWeights weights(std::move(model), WeightType::kInt8);
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  EXPECT_EQ(weights.read_packed(name).data.const_data_ptr(), weights.read_packed(name).data.const_data_ptr());
}

}  // namespace
}  // namespace pmnet
