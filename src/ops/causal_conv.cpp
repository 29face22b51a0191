#include "kernels/causal_conv.h"

#include "ops/channel_slabs.h"

namespace pmnet::ops {
namespace {

Tensor reference(const Tensor& x, const Tensor& weight, const OptTensor& bias, const OptTensor& past) {
  const int64_t B = x.size(0), T = x.size(1), E = x.size(2), K = weight.size(1);
  if (T == 0) return at::silu(x);  // no window fits
  const Tensor before = past ? *past : at::zeros({B, E, K - 1}, x.options());
  const Tensor input = at::cat({before, x.transpose(1, 2)}, 2);                                        // [B,E,K-1+T]
  const Tensor sums = (input.unfold(2, K, /*step=*/1) * weight.unsqueeze(1)).sum(-1).transpose(1, 2);  // [B,T,E]
  return at::silu(bias ? sums + *bias : sums);
}

struct CausalConv : KernelFunction<CausalConv> {
  static constexpr const char* kName = "causal_conv";

  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& weight_in, const OptTensor& bias_in,
                        const OptTensor& past_in) {
    const int64_t B = x_in.size(0), T = x_in.size(1), E = x_in.size(2), K = weight_in.size(1);
    const Tensor x = evenly_spaced(x_in), weight = weight_in.t().contiguous();
    const Tensor bias = contiguous_or_undefined(bias_in);
    const Tensor past = past_in ? past_in->transpose(1, 2).contiguous() : at::zeros({B, K - 1, E}, weight.options());
    Tensor y = at::empty({B, T, E}, weight.options());
    for_each_slab(B, E, T * K * kSlabChannels, [&](int64_t row, int64_t, int64_t begin, int64_t end) {
      kernels::causal_conv({T, E, K, x.stride(1), begin, end}, inputs_of_row(row, x, past, weight, bias),
                           mutable_data_at(y, row * T * E));
    });
    ctx->save_for_backward({x, past, weight, bias});
    ctx->saved_data["has_past"] = past_in.has_value();
    return y;
  }

  static variable_list gradients(AutogradContext* ctx, const variable_list& saved, variable_list grads) {
    const Tensor &x = saved[0], &past = saved[1], &weight = saved[2], &bias = saved[3];
    const int64_t B = x.size(0), T = x.size(1), E = x.size(2), K = weight.size(0);
    const Tensor grad_y = grads[0].contiguous();
    Tensor grad_x = at::empty_like(grad_y), grad_past = at::empty_like(past);
    Tensor grad_weight = at::empty({B, K, E}, weight.options()), grad_bias = at::empty({B, E}, weight.options());
    for_each_slab(B, E, T * K * kSlabChannels, [&](int64_t row, int64_t, int64_t begin, int64_t end) {
      kernels::causal_conv_backward({T, E, K, x.stride(1), begin, end}, inputs_of_row(row, x, past, weight, bias),
                                    data_at(grad_y, row * T * E),
                                    {.x = mutable_data_at(grad_x, row * T * E),
                                     .past = mutable_data_at(grad_past, row * (K - 1) * E),
                                     .weight = mutable_data_at(grad_weight, row * K * E),
                                     .bias = mutable_data_at(grad_bias, row * E)});
    });
    return {grad_x, grad_weight.sum(0).t(), bias.defined() ? grad_bias.sum(0) : Tensor(),
            ctx->saved_data["has_past"].toBool() ? grad_past.transpose(1, 2) : Tensor()};
  }

  static kernels::ConvInputs inputs_of_row(int64_t row, const Tensor& x, const Tensor& past, const Tensor& weight,
                                           const Tensor& bias) {
    return {.x = data_at(x, row * row_stride(x)),
            .past = data_at(past, row * past.size(1) * past.size(2)),
            .weight = data_at(weight),
            .bias = data_at(bias)};
  }
};

}  // namespace

Tensor causal_conv(const Tensor& x, const Tensor& weight, const OptTensor& bias, const OptTensor& past) {
  TORCH_CHECK(x.dim() == 3 && weight.dim() == 2 && weight.size(0) == x.size(2) && weight.size(1) >= 1,
              "causal_conv: x ", x.sizes(), " and weight ", weight.sizes(), " do not fit; expected [B,T,E] and [E,K]");
  TORCH_CHECK(!bias || (bias->dim() == 1 && bias->size(0) == x.size(2)), "causal_conv: bias ", bias->sizes(),
              "; expected [", x.size(2), "]");
  const std::vector<int64_t> kept{x.size(0), x.size(2), weight.size(1) - 1};
  TORCH_CHECK(!past || past->sizes() == kept, "causal_conv: past ", past->sizes(), "; expected ", kept);
  return use_kernels(x, weight, bias, past) ? CausalConv::apply(x, weight, bias, past)
                                            : reference(x, weight, bias, past);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("causal_conv(Tensor x, Tensor weight, Tensor? bias, Tensor? past) -> Tensor", causal_conv);
}

}  // namespace pmnet::ops
