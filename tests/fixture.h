// The parity fixtures (tests/fixtures/README.md) as tensors, and how to put their weights into a model.
#pragma once
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/config_json.h"
#include "io/safetensors.h"
#include "model/language_model.h"

namespace pmnet {

using NamedTensors = std::map<std::string, at::Tensor>;

struct Fixture {
  std::filesystem::path dir;
  ModelConfig config;
  NamedTensors weights, expected;
  std::vector<int64_t> chunks;  // of the streamed pass
};

inline NamedTensors load_tensors(const std::filesystem::path& path) {
  NamedTensors tensors;
  const SafetensorsFile file = SafetensorsFile::open(path);
  for (const TensorInfo& info : file.tensors()) {
    TORCH_CHECK(info.dtype == DType::kF32 || info.dtype == DType::kI64, path, ": ", info.name,
                " is neither float32 nor int64");
    const at::Tensor tensor = at::empty(info.shape, info.dtype == DType::kF32 ? at::kFloat : at::kLong);
    file.read(info, tensor.mutable_data_ptr());
    tensors[info.name] = tensor;
  }
  return tensors;
}

inline Fixture load_fixture(const std::string& name) {
  const std::filesystem::path dir = std::filesystem::path(PMNET_FIXTURES) / name;
  Fixture fixture{.dir = dir,
                  .config = read_config(dir / "config.json").config,
                  .weights = load_tensors(dir / "model.safetensors"),
                  .expected = load_tensors(dir / "expected.safetensors"),
                  .chunks = {}};
  if (std::ifstream stream(dir / "stream.json"); stream)
    fixture.chunks = nlohmann::json::parse(stream).at("chunks").get<std::vector<int64_t>>();
  return fixture;
}

// Every parameter of the model gets the weight of its name; names and shapes must match one to one.
inline void copy_weights(const NamedTensors& weights, LanguageModel& model) {
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

inline double max_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  return a.numel() == 0 ? 0.0 : (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// Relative to the largest entry of what is expected, as gradients are compared.
inline double relative_difference(const at::Tensor& got, const at::Tensor& expected) {
  if (expected.numel() == 0) return max_difference(got, expected);
  return max_difference(got, expected) / std::max(expected.abs().max().item<double>(), 1e-30);
}

}  // namespace pmnet
