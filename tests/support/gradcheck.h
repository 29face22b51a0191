// Central differences in double against autograd, for any function of tensors.
#pragma once
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

#include "support/one_thread.h"

namespace pmnet {

using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

struct GradcheckSettings {
  double eps = 1e-6, atol = 1e-5, rtol = 1e-3;
  int64_t max_entries = 200;  // of each input, spread evenly
};

// A fixed random direction for each output: one number to differentiate that no error can hide from.
inline at::Tensor project(const std::vector<at::Tensor>& outputs, uint64_t seed = 1) {
  at::Tensor total = at::zeros({}, at::kDouble);
  for (const at::Tensor& output : outputs) {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed++);
    const at::Tensor direction = at::randn(output.sizes(), generator, at::kFloat);
    total = total + (output * direction.to(output.scalar_type())).to(at::kDouble).sum();
  }
  return total;
}

// Empty when the gradient of every input (double) agrees; otherwise which entry does not.
inline std::string gradient_mismatch(const TensorFunction& function, const std::vector<at::Tensor>& inputs,
                                     const GradcheckSettings& settings = {}) {
  const OneThread one_thread;
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().clone().requires_grad_());
  const auto gradients = torch::autograd::grad({project(function(leaves))}, leaves, /*grad_outputs=*/{},
                                               /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                               /*allow_unused=*/true);
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < leaves.size(); ++i) {
    double* values = leaves[i].mutable_data_ptr<double>();
    const int64_t count = leaves[i].numel(), step = std::max<int64_t>(1, count / settings.max_entries);
    const at::Tensor gradient = gradients[i].defined() ? gradients[i].contiguous() : at::zeros_like(leaves[i]);
    for (int64_t j = 0; j < count; j += step) {
      const double value = values[j];
      const auto loss_at = [&](double x) {
        values[j] = x;
        return project(function(leaves)).item<double>();
      };
      const double numeric = (loss_at(value + settings.eps) - loss_at(value - settings.eps)) / (2 * settings.eps);
      values[j] = value;
      const double analytic = gradient.const_data_ptr<double>()[j];
      if (!(std::abs(numeric - analytic) <= settings.atol + settings.rtol * std::abs(numeric)))
        return fmt::format("input {} entry {}: autograd {}, differences {}", i, j, analytic, numeric);
    }
  }
  return "";
}

}  // namespace pmnet
