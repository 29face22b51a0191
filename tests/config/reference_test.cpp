#include "config/reference.h"

#include <gtest/gtest.h>

#include "config/model_fields.h"
#include "config/presets.h"
#include "config/train_options.h"

namespace pmnet {
namespace {

void expect_rows(const std::string& page, const std::vector<std::string>& keys) {
  for (const std::string& key : keys)
    EXPECT_NE(page.find("\n| `" + key + "` |"), std::string::npos) << key << "\n" << page;
}

TEST(Reference, PagesHaveARowForEveryKey) {
  const std::string config = reference_page(ReferencePage::kConfig);
  expect_rows(config, keys_of(model_fields<PmnetConfig>()));
  expect_rows(config, keys_of(model_fields<TransformerConfig>()));
  expect_rows(config, keys_of(model_fields<MambaConfig>()));
  expect_rows(reference_page(ReferencePage::kTrainingKeys), keys_of(train_options()));
  expect_rows(reference_page(ReferencePage::kPresets), preset_names());
}

TEST(Reference, EveryFieldIsDescribed) {
  for (const auto& field : model_fields<PmnetConfig>()) EXPECT_FALSE(field.help.empty()) << field.key;
  for (const TrainOption& option : train_options()) EXPECT_FALSE(option.help.empty()) << option.key;
}

}  // namespace
}  // namespace pmnet
