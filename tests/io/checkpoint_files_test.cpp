#include "io/checkpoint_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "config/config_json.h"
#include "config/costs.h"
#include "config/presets.h"
#include "safetensors_bytes.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const float kValues[] = {1, 2, 3, 4};

void write_tensors(const fs::path& file, const std::vector<std::string>& names) {
  std::vector<TensorView> views;
  for (const std::string& name : names) views.push_back({name, DType::kF32, {2, 2}, kValues});
  write_safetensors(file, views);
}

// Two shards with a, b and c, and an index that a case may change.
class Shards : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder());
    write_tensors(folder() / "one.safetensors", {"a", "b"});
    write_tensors(folder() / "two.safetensors", {"c"});
    map_ = {{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}};
  }

  fs::path folder() const { return outside_ / "model"; }

  std::string verdict(const json& index) {
    write_file(folder() / "model.safetensors.index.json", index.dump());
    const std::string error = user_error_of([&] { TensorSet::open(folder()); });
    const std::string where = (folder() / "model.safetensors.index.json").string() + ": ";
    return error.starts_with(where) ? error.substr(where.size()) : error;
  }
  std::string verdict() { return verdict({{"metadata", {{"total_size", 48}}}, {"weight_map", map_}}); }

  TemporaryFolder outside_;
  json map_;
};

TEST_F(Shards, AreReadAsOneSet) {
  ASSERT_EQ(verdict(), "(no error)");
  const TensorSet set = TensorSet::open(folder());
  ASSERT_EQ(set.tensors().size(), 3u);
  ASSERT_NE(set.find("c"), nullptr);
  float values[4] = {};
  set.find("c")->read(values);
  EXPECT_EQ(values[3], 4);
  EXPECT_EQ(set.find("d"), nullptr);
}

TEST_F(Shards, NamesMustBePlain) {
  write_tensors(outside_ / "x.safetensors", {"c"});
  fs::create_directory(folder() / "sub");
  write_tensors(folder() / "sub/x.safetensors", {"c"});
  for (const std::string& name :
       {std::string("../x.safetensors"), (outside_ / "x.safetensors").string(), std::string("sub/x.safetensors"),
        std::string("./two.safetensors"), std::string("sub\\x.safetensors"), std::string(""), std::string(".."),
        std::string("two.safetensors\0", 16)}) {
    map_["c"] = name;
    EXPECT_NE(verdict().find("is not a plain file name in the same folder"), std::string::npos) << name;
  }
  map_["c"] = "pytorch_model.bin";
  EXPECT_EQ(verdict(), "the shard \"pytorch_model.bin\" is not a .safetensors file");
}

TEST_F(Shards, MustExistInTheFolder) {
  fs::remove(folder() / "two.safetensors");
  EXPECT_EQ(verdict(), "the shard \"two.safetensors\" is missing; fetch it again");
  write_tensors(outside_ / "x.safetensors", {"c"});
  fs::create_symlink(outside_ / "x.safetensors", folder() / "two.safetensors");
  EXPECT_NE(verdict().find("is a link to " + (outside_ / "x.safetensors").string() + ", outside its folder"),
            std::string::npos);
  fs::remove(folder() / "two.safetensors");
  write_tensors(folder() / "real.safetensors", {"c"});
  fs::create_symlink("real.safetensors", folder() / "two.safetensors");
  EXPECT_EQ(verdict(), "(no error)");
  fs::remove(folder() / "real.safetensors");
  EXPECT_EQ(verdict(), "the shard \"two.safetensors\" is missing; fetch it again");
}

TEST_F(Shards, LinksOfADownloadCacheAreFollowed) {
  const fs::path snapshot = outside_ / "repo/snapshots/main";
  fs::create_directories(snapshot);
  fs::create_directories(outside_ / "repo/blobs");
  for (const char* name : {"one.safetensors", "two.safetensors"}) {
    fs::rename(folder() / name, outside_ / "repo/blobs" / name);
    fs::create_symlink(fs::path("../../blobs") / name, snapshot / name);
  }
  write_file(snapshot / "model.safetensors.index.json", json{{"weight_map", map_}}.dump());
  EXPECT_EQ(TensorSet::open(snapshot).tensors().size(), 3u);
}

TEST_F(Shards, MustAgreeWithTheIndex) {
  map_["c"] = "one.safetensors";
  EXPECT_EQ(verdict(), "the shard \"one.safetensors\" lacks tensor \"c\", which weight_map promises");
  map_["c"] = "two.safetensors";
  map_.erase("b");
  EXPECT_EQ(verdict(), "the shard \"one.safetensors\" holds tensor \"b\", which weight_map does not list");
  map_["b"] = "one.safetensors";
  map_["d"] = "two.safetensors";
  EXPECT_EQ(verdict(), "the shard \"two.safetensors\" lacks tensor \"d\", which weight_map promises");
  map_.erase("d");
  fs::remove(folder() / "two.safetensors");
  write_tensors(folder() / "two.safetensors", {"b", "c"});
  EXPECT_EQ(verdict(), "tensor \"b\" is in the shard \"two.safetensors\", but weight_map says \"one.safetensors\"");
}

TEST_F(Shards, TheIndexMustBeAnIndex) {
  const std::string wanted = "must be an object whose weight_map gives the file of each tensor";
  EXPECT_EQ(verdict(json::array()), wanted);
  EXPECT_EQ(verdict(json::object()), wanted);
  EXPECT_EQ(verdict({{"weight_map", json::array({1})}}), wanted);
  EXPECT_EQ(verdict({{"weight_map", json::object()}}), "weight_map is empty");
  EXPECT_EQ(verdict({{"weight_map", {{"a", 1}}}}), "weight_map: the file of \"a\" is not a string");
}

TEST_F(Shards, ModelHashDoesNotDependOnTheFiles) {
  ASSERT_EQ(verdict(), "(no error)");
  write_tensors(outside_ / "whole.safetensors", {"c", "b", "a"});
  const std::string sharded = ModelHash::of(TensorSet::open(folder()));
  EXPECT_EQ(ModelHash::of(TensorSet::open(outside_ / "whole.safetensors")), sharded);
  EXPECT_EQ(sharded.size(), 32u);
  ModelHash in_memory;
  for (const char* name : {"b", "a", "c"}) in_memory.add(name, DType::kF32, {2, 2}, kValues);
  EXPECT_EQ(in_memory.hex(), sharded);
  EXPECT_THROW(in_memory.add("a", DType::kF32, {2, 2}, kValues), std::logic_error);
}

TEST(ModelHash, SeesNamesTypesShapesAndBytes) {
  const float other[] = {1, 2, 3, 5};
  const auto hash = [](const char* name, DType dtype, std::vector<int64_t> shape, const void* data) {
    ModelHash one;
    one.add(name, dtype, shape, data);
    return one.hex();
  };
  const std::set<std::string> hashes = {
      hash("a", DType::kF32, {2, 2}, kValues), hash("b", DType::kF32, {2, 2}, kValues),
      hash("a", DType::kI32, {2, 2}, kValues), hash("a", DType::kF32, {4}, kValues),
      hash("a", DType::kF32, {2, 2}, other),   ModelHash().hex(),
  };
  EXPECT_EQ(hashes.size(), 6u);
}

TEST(TensorSet, SaysWhatIsWrongWithAFolder) {
  const TemporaryFolder folder;
  const std::string name = folder.path().string();
  EXPECT_EQ(user_error_of([&] { TensorSet::open(folder / "absent"); }),
            name + "/absent: does not exist; a model folder or a .safetensors file is needed");
  EXPECT_EQ(user_error_of([&] { TensorSet::open(folder.path()); }),
            name + ": is not a model folder: it has neither model.safetensors nor model.safetensors.index.json");
  write_file(folder / "pytorch_model.bin", "PK");
  EXPECT_NE(user_error_of([&] { TensorSet::open(folder.path()); }).find("only pytorch_model.bin, a pickle file"),
            std::string::npos);
}

TEST(TensorSet, RequiredTensorsAreListedAllAtOnce) {
  const TemporaryFolder folder;
  write_tensors(folder / "model.safetensors", {"a", "b", "extra"});
  const TensorSet set = TensorSet::open(folder.path());
  EXPECT_EQ(require_tensors(set, {{"a", {2, 2}}, {"b", {2, 2}}}), std::vector<std::string>{"extra"});
  EXPECT_EQ(user_error_of([&] { require_tensors(set, {{"a", {4}}, {"c", {1}}, {"b", {2, 2}}, {"d", {}}}); }),
            folder.path().string() +
                ": does not fit its configuration: a has shape [2, 2] instead of [4], c is missing, d is missing");
}

// The formulas of config/costs against real weights.
TEST(TensorSet, FixturesHoldAsManyNumbersAsTheirConfigurationSays) {
  for (const char* name : {"base", "grouped_query", "llama", "mamba", "token_by_token", "uneven_depth",
                           "untied_full_attention_mix", "write_every_layer"}) {
    const fs::path folder = fs::path(PMNET_FIXTURES) / name;
    const TensorSet set = TensorSet::open(folder);
    int64_t numbers = 0;
    for (const StoredTensor& tensor : set.tensors()) {
      EXPECT_EQ(tensor.info->dtype, DType::kF32);
      numbers += static_cast<int64_t>(tensor.info->bytes() / 4);
    }
    EXPECT_EQ(parameter_count(read_config(folder / "config.json").config), numbers) << name;
  }
}

TEST(TokenizerFiles, NameTheAuthorsTokenizer) {
  const auto files = hugging_face_files(preset("119m"));
  const json tokenizer = json::parse(files.at("tokenizer_config.json"));
  EXPECT_EQ(tokenizer["auto_map"]["AutoTokenizer"], json::array({"tokenization_pmnet.ByteTokenizer", nullptr}));
  EXPECT_EQ(tokenizer["tokenizer_class"], "ByteTokenizer");
  EXPECT_EQ(tokenizer["vocab_size"], 384);
  EXPECT_EQ(json::parse(files.at("special_tokens_map.json"))["bos_token"], "<|bos|>");
}

}  // namespace
}  // namespace pmnet
