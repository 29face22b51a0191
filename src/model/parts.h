// The plain pieces every model is built from. Parameters are public tensors under the published names; visit() lists
// them with their full checkpoint names.
#pragma once
#include <ATen/core/Tensor.h>

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/packed_linear.h"

namespace pmnet {

using at::Tensor;
struct Linear;

// Called with every parameter and, where asked for, with every linear layer (its name without ".weight").
struct ParameterVisitor {
  std::function<void(const std::string& name, Tensor& parameter)> parameter;
  std::function<void(const std::string& name, Linear& layer)> linear;

  ParameterVisitor() = default;
  template <typename F>
    requires std::invocable<F&, const std::string&, Tensor&>
  ParameterVisitor(F f) : parameter(std::move(f)) {}  // NOLINT: a lambda is a visitor
  void operator()(const std::string& name, Tensor& tensor) const {
    if (parameter) parameter(name, tensor);
  }
};

struct Linear {
  Tensor weight;                            // [out, in]
  Tensor weight_scale;                      // [out], while `weight` is int8
  Tensor bias;                              // [out], undefined: none
  std::optional<ops::PackedWeight> packed;  // inference only: stands in for `weight`, which is then undefined

  Linear() = default;
  Linear(int64_t in, int64_t out, bool with_bias, const at::TensorOptions& options);
  Tensor operator()(const Tensor& x) const;
  int64_t num_inputs() const { return packed ? packed->num_inputs : weight.size(1); }
  int64_t num_outputs() const { return packed ? packed->num_outputs : weight.size(0); }
  // The weights from row `first` on, and the bias, as kernels take them.
  kernels::WeightMatrix matrix(int64_t first = 0) const;
  const float* bias_data(int64_t first = 0) const;
  void visit(const std::string& prefix, const ParameterVisitor& visitor);
};

struct RmsNorm {
  Tensor weight;
  double eps = 0;

  RmsNorm() = default;
  RmsNorm(int64_t width, double eps, const at::TensorOptions& options);
  Tensor operator()(const Tensor& x) const;
  void visit(const std::string& prefix, const ParameterVisitor& visitor);
};

// What several linear layers make of one normed input.
std::vector<Tensor> project(const Tensor& x, const RmsNorm& norm, const std::vector<const Linear*>& layers);

// SwiGLU of a normed input: down(silu(gate x) * up x).
struct Mlp {
  Linear gate_proj, up_proj, down_proj;

  Mlp() = default;
  Mlp(int64_t width, int64_t inner, bool with_bias, const at::TensorOptions& options);
  Tensor operator()(const Tensor& x, const RmsNorm& norm) const;
  void visit(const std::string& prefix, const ParameterVisitor& visitor);
};

// The embedding of ids; the row of `pad` (negative: none) gets no gradient from here.
Tensor embed(const Tensor& weight, const Tensor& ids, int64_t pad);

// Fills a tensor with N(0, std) from a generator seeded with (seed, name): independent of the order of construction.
void fill_normal(Tensor& parameter, double std, uint64_t seed, const std::string& name);
// The same with a uniform distribution on [low, high).
void fill_uniform(Tensor& parameter, double low, double high, uint64_t seed, const std::string& name);

}  // namespace pmnet
