#include "model/layers.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "base/hash.h"
#include "model/tensors.h"
#include "ops/ops.h"

namespace pmnet {

Linear::Linear(int64_t in, int64_t out, bool with_bias, const at::TensorOptions& options)
    : weight(at::empty({out, in}, options)), bias(with_bias ? at::empty({out}, options) : Tensor()) {}

Tensor Linear::operator()(const Tensor& x) const { return at::linear(x, weight, bias); }

void Linear::visit(const std::string& prefix, const ParameterVisitor& visitor) {
  visitor(prefix + ".weight", weight);
  if (bias.defined()) visitor(prefix + ".bias", bias);
}

RmsNorm::RmsNorm(int64_t width, double eps, const at::TensorOptions& options)
    : weight(at::empty({width}, options)), eps(eps) {}

Tensor RmsNorm::operator()(const Tensor& x) const { return ops::rms_norm(x, weight, eps); }

void RmsNorm::visit(const std::string& prefix, const ParameterVisitor& visitor) { visitor(prefix + ".weight", weight); }

std::vector<Tensor> project(const Tensor& x, const RmsNorm& norm, const std::vector<const Linear*>& layers) {
  std::vector<Tensor> weights, biases;
  for (const Linear* layer : layers) {
    weights.push_back(layer->weight);
    if (layer->bias.defined()) biases.push_back(layer->bias);
  }
  return ops::rms_norm_linear(x, norm.weight, norm.eps, weights, biases);
}

Mlp::Mlp(int64_t width, int64_t inner, bool with_bias, const at::TensorOptions& options)
    : gate_proj(width, inner, with_bias, options),
      up_proj(width, inner, with_bias, options),
      down_proj(inner, width, with_bias, options) {}

Tensor Mlp::operator()(const Tensor& x, const RmsNorm& norm) const {
  const auto inner = project(x, norm, {&gate_proj, &up_proj});
  const auto bias = down_proj.bias.defined() ? ops::OptTensor(down_proj.bias) : std::nullopt;
  return ops::swiglu_linear(inner[0], inner[1], down_proj.weight, bias);
}

void Mlp::visit(const std::string& prefix, const ParameterVisitor& visitor) {
  gate_proj.visit(prefix + ".gate_proj", visitor);
  up_proj.visit(prefix + ".up_proj", visitor);
  down_proj.visit(prefix + ".down_proj", visitor);
}

Tensor embed(const Tensor& weight, const Tensor& ids, int64_t pad) {
  return at::embedding(weight, ids, pad, /*scale_grad_by_freq=*/false, /*sparse=*/false);
}

namespace {

at::Generator generator_of(uint64_t seed, const std::string& name) {
  return at::detail::createCPUGenerator(fnv1a(name, seed ^ kGoldenRatio64));
}

}  // namespace

void fill_normal(Tensor& parameter, double std, uint64_t seed, const std::string& name) {
  at::NoGradGuard no_grad;
  parameter.copy_(at::normal(0.0, std, parameter.sizes(), generator_of(seed, name), at::kFloat));
}

void fill_new(Tensor& parameter, const NewWeights& weights, uint64_t seed, const std::string& name) {
  if (is_ngram_table(name)) {
    parameter.zero_();  // a row says nothing until its n-gram has been seen
    return;
  }
  if (parameter.dim() != 2) {
    parameter.fill_(name.find("norm") != std::string::npos ? 1.0 : 0.0);
    return;
  }
  bool ends_branch = false;
  for (const char* end : {"self_attn.o_proj.weight", "mlp.down_proj.weight", "memory_read_module.proj_out.weight"})
    ends_branch = ends_branch || name.ends_with(end);
  fill_normal(parameter, weights.std * (ends_branch ? weights.residual : 1), seed, name);
}

void fill_uniform(Tensor& parameter, double low, double high, uint64_t seed, const std::string& name) {
  at::NoGradGuard no_grad;
  parameter.copy_(at::empty(parameter.sizes(), at::kFloat).uniform_(low, high, generator_of(seed, name)));
}

}  // namespace pmnet
