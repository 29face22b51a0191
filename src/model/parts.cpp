#include "model/parts.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "ops/ops.h"

namespace pmnet {

Linear::Linear(int64_t in, int64_t out, bool with_bias, const at::TensorOptions& options)
    : weight(at::empty({out, in}, options)), bias(with_bias ? at::empty({out}, options) : Tensor()) {}

Tensor Linear::operator()(const Tensor& x) const {
  const auto shift = bias.defined() ? ops::OptTensor(bias) : std::nullopt;
  if (packed) return ops::packed_linear(x, *packed, shift);
  const bool few = x.numel() <= ops::kFewVectors * x.size(-1);
  if (few && !at::GradMode::is_enabled() && weight.scalar_type() == at::kFloat)
    return ops::packed_linear(x, {kernels::WeightType::kF32, weight, std::nullopt}, shift);
  return at::linear(x, weight, bias);
}

void Linear::visit(const std::string& prefix, const ParameterVisitor& visitor) {
  if (visitor.linear) visitor.linear(prefix, *this);
  if (!packed) visitor(prefix + ".weight", weight);
  if (bias.defined()) visitor(prefix + ".bias", bias);
}

RmsNorm::RmsNorm(int64_t width, double eps, const at::TensorOptions& options)
    : weight(at::empty({width}, options)), eps(eps) {}

Tensor RmsNorm::operator()(const Tensor& x) const { return ops::rms_norm(x, weight, eps); }

void RmsNorm::visit(const std::string& prefix, const ParameterVisitor& visitor) { visitor(prefix + ".weight", weight); }

Mlp::Mlp(int64_t width, int64_t inner, bool with_bias, const at::TensorOptions& options)
    : gate_proj(width, inner, with_bias, options),
      up_proj(width, inner, with_bias, options),
      down_proj(inner, width, with_bias, options) {}

Tensor Mlp::operator()(const Tensor& x) const { return down_proj(ops::swiglu(gate_proj(x), up_proj(x))); }

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
  uint64_t key = seed ^ 0x9E3779B97F4A7C15;
  for (const unsigned char c : name) key = (key ^ c) * 0x100000001B3;
  return at::detail::createCPUGenerator(key);
}

}  // namespace

void fill_normal(Tensor& parameter, double std, uint64_t seed, const std::string& name) {
  at::NoGradGuard no_grad;
  parameter.copy_(at::normal(0.0, std, parameter.sizes(), generator_of(seed, name), at::kFloat));
}

void fill_uniform(Tensor& parameter, double low, double high, uint64_t seed, const std::string& name) {
  at::NoGradGuard no_grad;
  parameter.copy_(at::empty(parameter.sizes(), at::kFloat).uniform_(low, high, generator_of(seed, name)));
}

}  // namespace pmnet
