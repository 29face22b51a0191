#include "train/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

namespace pmnet {

namespace {

bool decays(const std::string& name, const at::Tensor& parameter) {
  return parameter.dim() >= 2 && name.find("embed") == std::string::npos && name.find("norm") == std::string::npos &&
         name.find("A_log") == std::string::npos;
}

}  // namespace

AdamW::AdamW(std::vector<std::pair<std::string, at::Tensor>> parameters, const AdamWSettings& settings)
    : parameters_(std::move(parameters)),
      step_(at::zeros({1}, parameters_.at(0).second.options().dtype(at::kFloat).requires_grad(false))),
      settings_(settings) {
  groups_ = {{{}, settings.weight_decay}, {{}, 0.0}};
  for (size_t i = 0; i < 2 && settings.memory_embedding_lr != 1; ++i)  // the same for memory embeddings
    groups_.push_back({{}, groups_[i].weight_decay, settings.memory_embedding_lr});
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, p] = parameters_[i];
    first_.push_back(at::zeros_like(p.detach()));
    second_.push_back(at::zeros_like(p.detach()));
    const size_t own = groups_.size() > 2 && name.find("memory_embeddings") != std::string::npos ? 2 : 0;
    groups_[own + (settings.decay_everything || decays(name, p) ? 0 : 1)].members.push_back(i);
  }
}

void AdamW::step(double learning_rate) {
  at::NoGradGuard no_grad;
  step_ += 1;
  for (const Group& group : groups_) {
    std::vector<at::Tensor> parameters, gradients, first, second, steps;
    for (const size_t i : group.members) {
      at::Tensor p = parameters_[i].second;
      if (!p.grad().defined()) continue;
      parameters.push_back(p);
      gradients.push_back(p.grad());
      first.push_back(first_[i]);
      second.push_back(second_[i]);
      steps.push_back(step_);
    }
    if (parameters.empty()) continue;
    at::_fused_adamw_(parameters, gradients, first, second, /*max_exp_avg_sqs=*/{}, steps, learning_rate * group.rate,
                      settings_.beta1, settings_.beta2, group.weight_decay, settings_.eps, /*amsgrad=*/false,
                      /*maximize=*/false);
  }
}

void AdamW::zero_gradients() {
  for (auto& [name, p] : parameters_) p.mutable_grad() = at::Tensor();
}

void AdamW::visit_state(const std::function<void(const std::string&, at::Tensor&)>& visitor) {
  visitor("step", step_);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    visitor(parameters_[i].first + ".first", first_[i]);
    visitor(parameters_[i].first + ".second", second_[i]);
  }
}

double gradient_norm(const std::vector<std::pair<std::string, at::Tensor>>& parameters) {
  double squares = 0;
  for (const auto& [name, p] : parameters) {
    if (!p.grad().defined()) continue;
    const double norm =
        at::linalg_vector_norm(p.grad(), 2, at::OptionalIntArrayRef(), false, at::kDouble).item<double>();
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

void clip_gradients(const std::vector<std::pair<std::string, at::Tensor>>& parameters, double norm, double max_norm) {
  if (norm <= max_norm) return;
  for (const auto& [name, p] : parameters)
    if (p.grad().defined()) p.grad().mul_(max_norm / (norm + 1e-6));
}

}  // namespace pmnet
