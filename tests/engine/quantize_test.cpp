// Folders with bf16 and int8 weights: what they hold, and what is refused.
#include "engine/quantize.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "config/presets.h"
#include "model/model_folder.h"
#include "model/pmnet.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

void ignore(const std::string&) {}

class SmallWeights : public testing::TestWithParam<WeightType> {
 protected:
  NamedTensors original() const {
    PMNet model(config_, at::kFloat);
    model.initialize(1);
    return model.named_parameters();
  }

  // A folder with weights of the type, changed in some other way.
  NamedTensors save(const std::function<void(const std::string& name, Tensor& tensor)>& change = {}) {
    PMNet model(config_, at::kFloat);
    model.initialize(1);
    NamedTensors tensors = quantize_weights(model, GetParam());
    for (auto& [name, tensor] : tensors)
      if (change) change(name, tensor);
    save_model(path_, tensors, config_);
    return tensors;
  }

  const PmnetConfig config_ = preset("tiny");
  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "model";
};
INSTANTIATE_TEST_SUITE_P(Types, SmallWeights, testing::Values(WeightType::kBF16, WeightType::kInt8));

TEST_P(SmallWeights, ComeBackFromAFolderAsTheyWere) {
  const NamedTensors saved = save();
  const ModelFolder folder(path_, [](const std::string& warning) { ADD_FAILURE() << warning; });
  for (const auto& [name, tensor] : saved) {
    if (name.ends_with("_scale")) continue;
    const StoredWeight stored = folder.read(name);
    EXPECT_EQ(stored.values.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(stored.values, tensor)) << name;
    EXPECT_EQ(stored.scales.has_value(), tensor.scalar_type() == at::kChar) << name;
  }
  EXPECT_EQ(folder.hash(), tensors_hash(saved));
}

TEST_P(SmallWeights, AreWidenedForAModelInFloat32) {
  save();
  const NamedTensors wanted = original(), found = load_model(path_).model->named_parameters();
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(found[i].second.scalar_type(), at::kFloat);
    const double largest = wanted[i].second.abs().max().item<double>();
    EXPECT_LE((found[i].second - wanted[i].second).abs().max().item<double>(), largest / 250) << wanted[i].first;
  }
}

class Int8Weights : public SmallWeights {};
INSTANTIATE_TEST_SUITE_P(Files, Int8Weights, testing::Values(WeightType::kInt8));

TEST_P(Int8Weights, NeedTheirScales) {
  const std::string layer = "model.layers.2.mlp.up_proj.weight";
  save([&](const std::string& name, Tensor& tensor) {
    if (name == scale_name(layer)) tensor = tensor.narrow(0, 0, 3);
  });
  const std::string refusal = user_error_of([&] { load_model(path_); });
  EXPECT_NE(refusal.find(layer + " has no"), std::string::npos) << refusal;
  EXPECT_EQ(user_error_of([&] { ModelFolder(path_, ignore).read(layer); }), refusal);
}

TEST_P(Int8Weights, AreThoseOfMatricesAlone) {
  save([](const std::string& name, Tensor& tensor) {
    if (name == "model.norm.weight") tensor = tensor.to(at::kChar);
  });
  const std::string refusal = user_error_of([&] { load_model(path_); });
  EXPECT_NE(refusal.find("model.norm.weight is not floating point"), std::string::npos) << refusal;
}

// The rule by names finds the linear layers of every architecture, tables of n-grams, and nothing else.
TEST(WeightsThatAreStoredSmaller, AreProjectionsAndTablesOfNgrams) {
  PmnetConfig small = preset("tiny");
  small.max_ngram = 3;
  for (const ModelConfig& config :
       {ModelConfig(small), ModelConfig(transformer_like(small)), ModelConfig(mamba_like(small))})
    for (const auto& [name, parameter] : make_model(config)->named_parameters()) {
      const bool table = is_ngram_table(name);
      const bool other = (name.find("embed") != name.npos && !table) || name.find("A_log") != name.npos;
      EXPECT_EQ(is_stored_smaller(name), parameter.dim() == 2 && !other) << name;
    }
}

}  // namespace
}  // namespace pmnet
