// The parity fixtures (tests/fixtures/README.md) as tensors, and how to put their weights into a model.
#pragma once
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/config_json.h"
#include "model/language_model.h"
#include "model/tensors.h"
#include "support/differences.h"

namespace pmnet {

using TensorMap = std::map<std::string, at::Tensor>;

struct Fixture {
  std::filesystem::path dir;
  ModelConfig config;
  TensorMap weights, expected;
  std::vector<int64_t> chunks;  // of the streamed pass
};

inline Fixture load_fixture(const std::string& name) {
  const std::filesystem::path dir = std::filesystem::path(PMNET_FIXTURES) / name;
  Fixture fixture{.dir = dir,
                  .config = read_config(dir / "config.json").config,
                  .weights = read_tensors(dir / "model.safetensors"),
                  .expected = read_tensors(dir / "expected.safetensors"),
                  .chunks = {}};
  if (std::ifstream stream(dir / "stream.json"); stream)
    fixture.chunks = nlohmann::json::parse(stream).at("chunks").get<std::vector<int64_t>>();
  return fixture;
}

// Every parameter of the model gets the weight of its name; names and shapes must match one to one.
inline void copy_weights(const TensorMap& weights, LanguageModel& model) {
  at::NoGradGuard no_grad;
  size_t copied = 0;
  model.visit([&](const std::string& name, at::Tensor& parameter) {
    const auto found = weights.find(name);
    ASSERT_NE(found, weights.end()) << "the fixture has no weight named " << name;
    ASSERT_EQ(found->second.sizes(), parameter.sizes()) << name;
    parameter.copy_(found->second);
    ++copied;
  });
  EXPECT_EQ(copied, weights.size()) << "the fixture has weights that the model lacks";
}

inline std::unique_ptr<LanguageModel> model_of(const Fixture& fixture, at::ScalarType dtype = at::kFloat) {
  auto model = make_model(fixture.config, dtype);
  copy_weights(fixture.weights, *model);
  return model;
}

}  // namespace pmnet
