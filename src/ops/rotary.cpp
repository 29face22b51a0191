#include "kernels/rotary.h"

#include "ops/rms_norm.h"

namespace pmnet::ops {
namespace {

Tensor reference(const Tensor& x, const OptTensor& weight, const Tensor& cos, const Tensor& sin, double eps) {
  const Tensor y = weight ? rms_norm_reference(x, *weight, eps) : x;
  const int64_t half = x.size(-1) / 2;
  const Tensor left = y.narrow(-1, 0, half), right = y.narrow(-1, half, half);
  const Tensor c = cos.unsqueeze(2), s = sin.unsqueeze(2);  // [B|1,T,1,Dh/2]
  return at::cat({left * c - right * s, right * c + left * s}, -1);
}

// cos and sin [B|1,T,Dh/2] as one row per token of x.
Tensor per_token(const Tensor& table, const Tensor& x) {
  return table.expand({x.size(0), x.size(1), table.size(2)}).contiguous();
}

// The backward pass can compute the input from the output, which then need not be kept, unless a weight is so small
// that dividing by it would lose digits.
bool input_follows_from_output(const Tensor& weight) {
  constexpr float kMinRatio = 0.1f;  // smallest to largest weight
  const Tensor magnitude = weight.abs();
  return magnitude.min().item<float>() >= kMinRatio * magnitude.max().item<float>();
}

struct Rotary : KernelFunction<Rotary> {
  static constexpr const char* kName = "rotary";

  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const OptTensor& weight_in, const Tensor& cos_in,
                        const Tensor& sin_in, double eps) {
    const Tensor x = x_in.contiguous(), cos = per_token(cos_in, x), sin = per_token(sin_in, x);
    const Tensor weight = contiguous_or_undefined(weight_in);
    const bool norm = weight.defined();
    const int64_t tokens = x.size(0) * x.size(1), heads = x.size(2), width = x.size(3);
    const Tensor y = at::empty_like(x), inverse_rms = at::empty({norm ? tokens * heads : 0}, x.options());
    for_each_range(tokens, num_ranges(tokens, 16), [&](int64_t, int64_t begin, int64_t end) {
      const int64_t at = begin * heads * width, table = begin * (width / 2);
      kernels::rotary({end - begin, heads, width}, data_at(x, at), data_at(weight), data_at(cos, table),
                      data_at(sin, table), eps, mutable_data_at(y, at),
                      mutable_data_at(inverse_rms, norm ? begin * heads : 0));
    });
    const bool keep_x = norm && weight.numel() > 0 && tokens > 0 && !input_follows_from_output(weight);
    ctx->save_for_backward({keep_x ? x : Tensor(), norm ? y : Tensor(), weight, cos_in, sin_in, inverse_rms});
    return y;
  }

  static variable_list gradients(AutogradContext*, const variable_list& saved, variable_list grads) {
    const Tensor &x = saved[0], &y = saved[1], &weight = saved[2], &inverse_rms = saved[5];
    const Tensor grad = grads[0].contiguous(), cos = per_token(saved[3], grad), sin = per_token(saved[4], grad);
    const int64_t tokens = grad.size(0) * grad.size(1), heads = grad.size(2), width = grad.size(3);
    const int64_t ranges = num_ranges(tokens, 16);
    const Tensor grad_x = at::empty_like(grad), grad_weight = at::zeros({ranges, width}, grad.options());
    for_each_range(tokens, ranges, [&](int64_t range, int64_t begin, int64_t end) {
      const int64_t at = begin * heads * width, table = begin * (width / 2);
      kernels::rotary_backward({end - begin, heads, width}, data_at(x, at), data_at(y, at), data_at(weight),
                               data_at(cos, table), data_at(sin, table),
                               data_at(inverse_rms, weight.defined() ? begin * heads : 0), data_at(grad, at),
                               mutable_data_at(grad_x, at), mutable_data_at(grad_weight, range * width));
    });
    return {grad_x, weight.defined() ? grad_weight.sum(0) : Tensor(), {}, {}, {}};
  }
};

}  // namespace

Tensor rotary(const Tensor& x, const OptTensor& weight, const Tensor& cos, const Tensor& sin, double eps) {
  TORCH_CHECK(x.dim() == 4 && x.size(3) % 2 == 0, "rotary: x has shape ", x.sizes(),
              "; expected [batch, time, heads, an even width]");
  TORCH_CHECK(cos.dim() == 3 && (cos.size(0) == 1 || cos.size(0) == x.size(0)) && cos.size(1) == x.size(1) &&
                  cos.size(2) * 2 == x.size(3) && sin.sizes() == cos.sizes(),
              "rotary: cos ", cos.sizes(), " and sin ", sin.sizes(), " do not fit x ", x.sizes(),
              "; expected [batch or 1, ", x.size(1), ", ", x.size(3) / 2, "]");
  if (weight) check_rms_norm("rotary", x, *weight);
  return use_kernels(x, weight, cos, sin) ? Rotary::apply(x, weight, cos, sin, eps)
                                          : reference(x, weight, cos, sin, eps);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("rotary(Tensor x, Tensor? weight, Tensor cos, Tensor sin, float eps) -> Tensor", rotary);
}

}  // namespace pmnet::ops
