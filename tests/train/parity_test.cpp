#include "train/parity.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/tensors.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

std::vector<std::string> fixtures() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(PMNET_FIXTURES))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> failures(const std::vector<ParityRow>& rows) {
  std::vector<std::string> items;
  for (const ParityRow& row : rows)
    if (!row.holds()) items.push_back(row.item);
  return items;
}

class Parity : public testing::TestWithParam<std::tuple<std::string, ops::Implementation>> {};

TEST_P(Parity, HoldsForEveryRecordedItem) {
  const auto& [name, implementation] = GetParam();
  const auto rows = check_parity(std::filesystem::path(PMNET_FIXTURES) / name, implementation);
  std::set<std::string> items;
  for (const ParityRow& row : rows) {
    EXPECT_TRUE(row.holds()) << row.item << ": " << row.error << " > " << row.limit << " (" << row.detail << ")";
    items.insert(row.item);
  }
  // A check that skipped an item would hold too.
  auto recorded = read_tensors(std::filesystem::path(PMNET_FIXTURES) / name / "expected.safetensors");
  recorded.erase("input_ids");
  for (const auto& [item, tensor] : recorded) EXPECT_TRUE(items.contains(item)) << item << " was not checked";
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Parity,
                         testing::Combine(testing::ValuesIn(fixtures()),
                                          testing::Values(ops::Implementation::kFast, ops::Implementation::kReference)),
                         [](const auto& info) {
                           const bool fast = std::get<1>(info.param) == ops::Implementation::kFast;
                           return std::get<0>(info.param) + (fast ? "_fast" : "_reference");
                         });

// A copy of a fixture with one file's tensors changed.
class Damaged {
 public:
  Damaged(const std::string& fixture, const std::string& file,
          const std::function<void(std::map<std::string, at::Tensor>&)>& change) {
    std::filesystem::copy(std::filesystem::path(PMNET_FIXTURES) / fixture, folder_ / fixture);
    path_ = folder_ / fixture;
    auto tensors = read_tensors(path_ / file);
    change(tensors);
    std::vector<at::Tensor> keep;
    std::filesystem::remove(path_ / file);
    write_safetensors(path_ / file, tensor_views({tensors.begin(), tensors.end()}, keep));
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
};

TEST(ParityNotices, OneChangedWeight) {
  const Damaged copy("grouped_query", "model.safetensors",
                     [](auto& tensors) { tensors.at("model.layers.1.mlp.down_proj.weight")[0][0] += 0.05; });
  const auto failed = failures(check_parity(copy.path(), ops::Implementation::kFast));
  EXPECT_TRUE(std::count(failed.begin(), failed.end(), "logits"));
  EXPECT_TRUE(std::count(failed.begin(), failed.end(), "logits_streamed"));
}

TEST(ParityNotices, OneWrongValueInEachKindOfItem) {
  const std::vector<std::string> items{"loss", "grad.model.norm.weight", "route.0", "memory.0", "logits_no_recurrence"};
  const Damaged copy("base", "expected.safetensors", [&](auto& tensors) {
    for (const std::string& item : items) {
      at::Tensor flat = tensors.at(item).view({-1});
      if (flat.is_floating_point())
        flat[0] += 0.01 * flat.abs().max().template item<double>();
      else
        flat[0] += 1;
    }
  });
  // Routes and logits are those of the model and of the engine.
  EXPECT_EQ(failures(check_parity(copy.path(), ops::Implementation::kFast)).size(), items.size() + 2);
}

TEST(ParityNotices, NaN) {
  const Damaged copy("token_by_token", "expected.safetensors", [](auto& tensors) {
    tensors.at("logits").view({-1})[3] = std::numeric_limits<double>::quiet_NaN();
  });
  EXPECT_EQ(failures(check_parity(copy.path(), ops::Implementation::kFast)),
            (std::vector<std::string>{"logits", "engine: logits"}));
}

TEST(ParityNotices, AMissingTensor) {
  const Damaged copy("token_by_token", "expected.safetensors", [](auto& tensors) { tensors.erase("loss"); });
  const std::string error = user_error_of([&] { check_parity(copy.path(), ops::Implementation::kFast); });
  EXPECT_NE(error.find("tensor loss is missing"), std::string::npos) << error;
}

}  // namespace
}  // namespace pmnet
