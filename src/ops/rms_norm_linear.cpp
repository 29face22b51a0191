// The projections of a pre-norm block. The normed input is as large as x and cheap to compute: the backward pass
// computes it again instead of keeping it from the forward pass.
#include "ops/rms_norm.h"

namespace pmnet::ops {
namespace {

OptTensor bias_of(at::TensorList biases, size_t i) { return biases.empty() ? OptTensor() : OptTensor(biases[i]); }

std::vector<Tensor> linears(const Tensor& y, at::TensorList weights, at::TensorList biases) {
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < weights.size(); ++i) outputs.push_back(at::linear(y, weights[i], bias_of(biases, i)));
  return outputs;
}

struct RmsNormLinear : KernelFunction<RmsNormLinear> {
  static constexpr const char* kName = "rms_norm_linear";

  static variable_list forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& norm_weight_in, double eps,
                               at::TensorList weights, at::TensorList biases) {
    const Tensor x = x_in.contiguous(), norm_weight = norm_weight_in.contiguous();
    variable_list saved{x, norm_weight};
    saved.insert(saved.end(), weights.begin(), weights.end());
    ctx->save_for_backward(saved);
    ctx->saved_data["eps"] = eps;
    ctx->saved_data["biased"] = !biases.empty();
    return linears(rms_norm_rows(x, norm_weight, eps).y, weights, biases);
  }

  static variable_list gradients(AutogradContext* ctx, const variable_list& saved, variable_list grads) {
    const Tensor &x = saved[0], &norm_weight = saved[1];
    const auto [y, inverse_rms] = rms_norm_rows(x, norm_weight, ctx->saved_data["eps"].toDouble());
    const int64_t rows = inverse_rms.size(0);
    const Tensor y_rows = y.view({rows, x.size(-1)});
    Tensor grad_y;
    variable_list grad_weights, grad_biases;
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor& weight = saved[2 + i];
      const Tensor grad = grads[i].defined() ? grads[i].reshape({rows, weight.size(0)})
                                             : at::zeros({rows, weight.size(0)}, x.options());
      grad_weights.push_back(grad.t().mm(y_rows));
      if (ctx->saved_data["biased"].toBool()) grad_biases.push_back(grad.sum(0));
      grad_y = grad_y.defined() ? grad_y.addmm_(grad, weight) : grad.mm(weight);
    }
    const auto [grad_x, grad_norm_weight] = rms_norm_rows_backward(x, norm_weight, inverse_rms, grad_y);
    variable_list all{grad_x, grad_norm_weight, {}};  // none for eps
    all.insert(all.end(), grad_weights.begin(), grad_weights.end());
    all.insert(all.end(), grad_biases.begin(), grad_biases.end());
    return all;
  }
};

}  // namespace

std::vector<Tensor> rms_norm_linear(const Tensor& x, const Tensor& norm_weight, double eps, at::TensorList weights,
                                    at::TensorList biases) {
  check_rms_norm("rms_norm_linear", x, norm_weight);
  TORCH_CHECK(biases.empty() || biases.size() == weights.size(), "rms_norm_linear: ", weights.size(), " weights and ",
              biases.size(), " biases; expected one bias for each weight, or none");
  bool kernels = !weights.empty() && use_kernels(x, norm_weight);
  for (const Tensor& weight : weights) {
    TORCH_CHECK(weight.dim() == 2 && weight.size(1) == x.size(-1), "rms_norm_linear: a weight has shape ",
                weight.sizes(), "; expected [outputs, ", x.size(-1), "]");
    kernels = kernels && use_kernels(weight);
  }
  return kernels ? RmsNormLinear::apply(x, norm_weight, eps, weights, biases)
                 : linears(rms_norm_reference(x, norm_weight, eps), weights, biases);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("rms_norm_linear(Tensor x, Tensor norm_weight, float eps, Tensor[] weights, Tensor[] biases) -> Tensor[]",
        rms_norm_linear);
}

}  // namespace pmnet::ops
