// The layers every model is built from. Parameters are public tensors under the published names; visit() lists
// them with their full checkpoint names.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <functional>
#include <string>
#include <vector>

namespace pmnet {

using at::Tensor;

// Called with every parameter under its checkpoint name.
using ParameterVisitor = std::function<void(const std::string& name, Tensor& parameter)>;

struct Linear {
  Tensor weight;  // [out, in]
  Tensor bias;    // [out], undefined: none

  Linear() = default;
  Linear(int64_t in, int64_t out, bool with_bias, const at::TensorOptions& options);
  Tensor operator()(const Tensor& x) const;
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

// A new parameter of a decoder layer, or of what surrounds the layers: matrices N(0, std), norms 1, biases 0.
struct NewWeights {
  double std = 0;
  double residual = 1;  // factor of std in matrices whose output is added to the residual stream
};
void fill_new(Tensor& parameter, const NewWeights& weights, uint64_t seed, const std::string& name);
// The same with a uniform distribution on [low, high).
void fill_uniform(Tensor& parameter, double low, double high, uint64_t seed, const std::string& name);

}  // namespace pmnet
