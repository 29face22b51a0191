// Models with bf16 and int8 weights: what a file holds, and what is refused.
#include "engine/packed_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "config/presets.h"
#include "model/model_folder.h"
#include "model/pmnet.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

using kernels::WeightType;

class SmallWeights : public testing::TestWithParam<WeightType> {
 protected:
  std::shared_ptr<PMNet> original() const {
    auto model = std::make_shared<PMNet>(config_, at::kFloat);
    model->initialize(1);
    return model;
  }

  // A model with weights of the type, and changed in some other way, in a folder.
  std::shared_ptr<PMNet> save(const std::function<void(PMNet&)>& change = [](PMNet&) {}) {
    auto model = original();
    round_weights(*model, GetParam());
    change(*model);
    save_model(path_, *model, config_);
    return model;
  }

  const PmnetConfig config_ = preset("tiny");
  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "model";
};
INSTANTIATE_TEST_SUITE_P(Types, SmallWeights, testing::Values(WeightType::kBF16, WeightType::kInt8));

TEST_P(SmallWeights, ComeBackFromAFileAsTheyWere) {
  const auto saved = save();
  const LoadedModel loaded = load_model(path_, {.keep_small = true});
  EXPECT_TRUE(loaded.warnings.empty()) << loaded.warnings[0];
  const auto wanted = saved->named_parameters(), found = loaded.model->named_parameters();
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(found[i].first, wanted[i].first);
    EXPECT_EQ(found[i].second.scalar_type(), wanted[i].second.scalar_type()) << wanted[i].first;
    EXPECT_TRUE(at::equal(found[i].second, wanted[i].second)) << wanted[i].first;
  }
  EXPECT_EQ(model_hash(*loaded.model), model_hash(*saved));
}

TEST_P(SmallWeights, AreWidenedForAModelInFloat32) {
  save();
  const auto wanted = original()->named_parameters();
  const auto found = load_model(path_).model->named_parameters();
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(found[i].second.scalar_type(), at::kFloat);
    const double largest = wanted[i].second.abs().max().item<double>();
    EXPECT_LE((found[i].second - wanted[i].second).abs().max().item<double>(), largest / 250) << wanted[i].first;
  }
}

TEST_P(SmallWeights, ThatArePackedCannotBeSaved) {
  const auto model = save();
  pack_weights(*model);
  EXPECT_THROW(save_model(path_, *model, config_), c10::Error);
  EXPECT_EQ(load_model(path_).warnings.size(), 0u);  // what was there still is
}

class Int8Weights : public SmallWeights {};
INSTANTIATE_TEST_SUITE_P(Files, Int8Weights, testing::Values(WeightType::kInt8));

TEST_P(Int8Weights, NeedTheirScales) {
  save([](PMNet& model) { model.layers[2].mlp.up_proj.weight_scale = Tensor(); });
  for (const bool keep_small : {false, true}) {
    const std::string refusal = user_error_of([&] { load_model(path_, {.keep_small = keep_small}); });
    EXPECT_NE(refusal.find("model.layers.2.mlp.up_proj.weight has no"), std::string::npos) << refusal;
  }
}

TEST_P(Int8Weights, AreThoseOfMatricesAlone) {
  save([](PMNet& model) { model.norm.weight = model.norm.weight.to(at::kChar); });
  const std::string refusal = user_error_of([&] { load_model(path_); });
  EXPECT_NE(refusal.find("model.norm.weight is not floating point"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace pmnet
