#include "kernels/rms_norm.h"
#include "ops/common.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

int64_t rows_of(const Tensor& x) { return x.numel() / std::max<int64_t>(x.size(-1), 1); }

// y = norm(x); inverse_rms [rows] is found on the way.
Tensor normed(const Tensor& x, const Tensor& weight, double eps, Tensor& inverse_rms) {
  const int64_t width = x.size(-1), rows = rows_of(x);
  Tensor y = at::empty_like(x);
  inverse_rms = at::empty({rows}, x.options());
  for_each_range(rows, num_ranges(rows, 4096 / std::max<int64_t>(width, 1) + 1),
                 [&](int64_t, int64_t begin, int64_t end) {
                   kernels::rms_norm(end - begin, width, x.const_data_ptr<float>() + begin * width,
                                     weight.const_data_ptr<float>(), eps, y.mutable_data_ptr<float>() + begin * width,
                                     inverse_rms.mutable_data_ptr<float>() + begin);
                 });
  return y;
}

struct RmsNormLinearFunction : torch::autograd::Function<RmsNormLinearFunction> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& norm_weight_in, double eps,
                               at::TensorList weights, at::TensorList biases) {
    const Tensor x = x_in.contiguous(), norm_weight = norm_weight_in.contiguous();
    Tensor inverse_rms;
    const Tensor y = normed(x, norm_weight, eps, inverse_rms);
    variable_list outputs, saved{x, norm_weight};
    for (size_t i = 0; i < weights.size(); ++i) {
      outputs.push_back(at::linear(y, weights[i], biases.empty() ? OptTensor() : OptTensor(biases[i])));
      saved.push_back(weights[i]);
    }
    ctx->save_for_backward(saved);
    ctx->saved_data["eps"] = eps;
    ctx->saved_data["biased"] = !biases.empty();
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &norm_weight = saved[1];
    const int64_t width = x.size(-1), rows = rows_of(x), pieces = num_ranges(rows, 16);
    Tensor inverse_rms;
    const Tensor y = normed(x, norm_weight, ctx->saved_data["eps"].toDouble(), inverse_rms).view({rows, width});
    Tensor grad_y;
    variable_list grad_weights, grad_biases;
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor& weight = saved[2 + i];
      const Tensor grad = grads[i].defined() ? grads[i].reshape({rows, weight.size(0)})
                                             : at::zeros({rows, weight.size(0)}, x.options());
      grad_weights.push_back(grad.t().mm(y));
      if (ctx->saved_data["biased"].toBool()) grad_biases.push_back(grad.sum(0));
      grad_y = grad_y.defined() ? grad_y.addmm_(grad, weight) : grad.mm(weight);
    }
    Tensor grad_x = at::empty_like(x), grad_norm_weight = at::zeros({pieces, width}, x.options());
    for_each_range(rows, pieces, [&](int64_t piece, int64_t begin, int64_t end) {
      const int64_t at = begin * width;
      kernels::rms_norm_backward(end - begin, width, x.const_data_ptr<float>() + at,
                                 norm_weight.const_data_ptr<float>(), inverse_rms.const_data_ptr<float>() + begin,
                                 grad_y.const_data_ptr<float>() + at, grad_x.mutable_data_ptr<float>() + at,
                                 grad_norm_weight.mutable_data_ptr<float>() + piece * width);
    });
    variable_list all{grad_x, grad_norm_weight.sum(0), {}};
    all.insert(all.end(), grad_weights.begin(), grad_weights.end());
    all.insert(all.end(), grad_biases.begin(), grad_biases.end());
    return all;
  }
};

std::vector<Tensor> rms_norm_linear_cpu(const Tensor& x, const Tensor& norm_weight, double eps, at::TensorList weights,
                                        at::TensorList biases) {
  return fast_path(x) ? RmsNormLinearFunction::apply(x, norm_weight, eps, weights, biases)
                      : reference::rms_norm_linear(x, norm_weight, eps, weights, biases);
}

}  // namespace

std::vector<Tensor> rms_norm_linear(const Tensor& x, const Tensor& norm_weight, double eps, at::TensorList weights,
                                    at::TensorList biases) {
  TORCH_CHECK(biases.empty() || biases.size() == weights.size(), "rms_norm_linear: ", weights.size(), " weights and ",
              biases.size(), " biases; expected as many, or no bias at all");
  for (const Tensor& weight : weights)
    TORCH_CHECK(weight.dim() == 2 && weight.size(1) == x.size(-1), "rms_norm_linear: a weight has shape ",
                weight.sizes(), ", expected [outputs, ", x.size(-1), "]");
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("pmnet::rms_norm_linear", "").typed<decltype(rms_norm_linear)>();
  return op.call(x, norm_weight, eps, weights, biases);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("rms_norm_linear(Tensor x, Tensor norm_weight, float eps, Tensor[] weights, Tensor[] biases) -> Tensor[]");
}
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) { m.impl("rms_norm_linear", reference::rms_norm_linear); }
TORCH_LIBRARY_IMPL(pmnet, CPU, m) { m.impl("rms_norm_linear", rms_norm_linear_cpu); }
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) { m.impl("rms_norm_linear", rms_norm_linear_cpu); }

}  // namespace pmnet::ops
