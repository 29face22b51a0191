#include "kernels/causal_conv.h"

#include "ops/channel_slabs.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

struct CausalConvFunction : torch::autograd::Function<CausalConvFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& weight_in, const OptTensor& bias_in,
                        const OptTensor& past_in) {
    const int64_t B = x_in.size(0), T = x_in.size(1), E = x_in.size(2), K = weight_in.size(1);
    const Tensor x = evenly_spaced(x_in), weight = weight_in.t().contiguous();
    const Tensor bias = bias_in ? bias_in->contiguous() : Tensor();
    const Tensor past = past_in ? past_in->transpose(1, 2).contiguous() : at::zeros({B, K - 1, E}, weight.options());
    Tensor y = at::empty({B, T, E}, weight.options());
    for_each_slab(B, E, T * K * kSlabChannels, [&](int64_t row, int64_t, int64_t begin, int64_t end) {
      kernels::causal_conv({T, E, K, x.stride(1), begin, end}, inputs_of_row(row, x, past, weight, bias),
                           y.mutable_data_ptr<float>() + row * T * E);
    });
    ctx->save_for_backward({x, past, weight, bias});
    ctx->saved_data["has_past"] = past_in.has_value();
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &past = saved[1], &weight = saved[2], &bias = saved[3];
    const int64_t B = x.size(0), T = x.size(1), E = x.size(2), K = weight.size(0);
    const Tensor grad_y = grads[0].contiguous();
    Tensor grad_x = at::empty_like(grad_y), grad_past = at::empty_like(past);
    Tensor grad_weight = at::empty({B, K, E}, weight.options()), grad_bias = at::empty({B, E}, weight.options());
    for_each_slab(B, E, T * K * kSlabChannels, [&](int64_t row, int64_t, int64_t begin, int64_t end) {
      kernels::causal_conv_backward({T, E, K, x.stride(1), begin, end}, inputs_of_row(row, x, past, weight, bias),
                                    grad_y.const_data_ptr<float>() + row * T * E,
                                    {.x = grad_x.mutable_data_ptr<float>() + row * T * E,
                                     .past = grad_past.mutable_data_ptr<float>() + row * (K - 1) * E,
                                     .weight = grad_weight.mutable_data_ptr<float>() + row * K * E,
                                     .bias = grad_bias.mutable_data_ptr<float>() + row * E});
    });
    return {grad_x, grad_weight.sum(0).t(), bias.defined() ? grad_bias.sum(0) : Tensor(),
            ctx->saved_data["has_past"].toBool() ? grad_past.transpose(1, 2) : Tensor()};
  }

  static kernels::ConvInputs inputs_of_row(int64_t row, const Tensor& x, const Tensor& past, const Tensor& weight,
                                           const Tensor& bias) {
    return {.x = x.const_data_ptr<float>() + row * row_stride(x),
            .past = past.const_data_ptr<float>() + row * past.size(1) * past.size(2),
            .weight = weight.const_data_ptr<float>(),
            .bias = data_or_null<float>(bias)};
  }
};

Tensor causal_conv_cpu(const Tensor& x, const Tensor& weight, const OptTensor& bias, const OptTensor& past) {
  return fast_path(x) ? CausalConvFunction::apply(x, weight, bias, past)
                      : reference::causal_conv(x, weight, bias, past);
}

}  // namespace

Tensor causal_conv(const Tensor& x, const Tensor& weight, const OptTensor& bias, const OptTensor& past) {
  TORCH_CHECK(x.dim() == 3 && weight.dim() == 2 && weight.size(0) == x.size(2) && weight.size(1) >= 1,
              "causal_conv: x ", x.sizes(), " and weight ", weight.sizes(), " do not fit; expected [B,T,E] and [E,K]");
  const std::vector<int64_t> kept{x.size(0), x.size(2), weight.size(1) - 1};
  TORCH_CHECK(!past || past->sizes() == kept, "causal_conv: past ", past->sizes(), "; expected ", kept);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("pmnet::causal_conv", "").typed<decltype(causal_conv)>();
  return op.call(x, weight, bias, past);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("causal_conv(Tensor x, Tensor weight, Tensor? bias, Tensor? past) -> Tensor");
}
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) { m.impl("causal_conv", reference::causal_conv); }
TORCH_LIBRARY_IMPL(pmnet, CPU, m) { m.impl("causal_conv", causal_conv_cpu); }
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) { m.impl("causal_conv", causal_conv_cpu); }

}  // namespace pmnet::ops
