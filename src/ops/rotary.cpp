#include "kernels/rotary.h"

#include "ops/common.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

// cos and sin [B|1,T,Dh/2] as one row per token of x.
Tensor per_token(const Tensor& table, const Tensor& x) {
  return table.expand({x.size(0), x.size(1), table.size(2)}).contiguous();
}

// The output can stand in for the input in the backward pass, which then need not be kept, unless a weight is so small
// that dividing by it would lose digits.
bool input_follows_from_output(const Tensor& weight) {
  constexpr float kSmallest = 0.1f;  // of the largest
  const Tensor size = weight.abs();
  return size.min().item<float>() >= kSmallest * size.max().item<float>();
}

struct RotaryFunction : torch::autograd::Function<RotaryFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const OptTensor& weight, const Tensor& cos_in,
                        const Tensor& sin_in, double eps) {
    const Tensor x = x_in.contiguous(), cos = per_token(cos_in, x), sin = per_token(sin_in, x);
    const Tensor w = weight ? weight->contiguous() : Tensor();
    const int64_t tokens = x.size(0) * x.size(1), heads = x.size(2), width = x.size(3);
    Tensor y = at::empty_like(x), inverse_rms = at::empty({weight ? tokens * heads : 0}, x.options());
    for_each_range(tokens, num_ranges(tokens, 16), [&](int64_t, int64_t begin, int64_t end) {
      const int64_t at = begin * heads * width, table = begin * (width / 2);
      kernels::rotary({end - begin, heads, width}, x.const_data_ptr<float>() + at, data_or_null<float>(w),
                      cos.const_data_ptr<float>() + table, sin.const_data_ptr<float>() + table, eps,
                      y.mutable_data_ptr<float>() + at,
                      inverse_rms.mutable_data_ptr<float>() + (weight ? begin * heads : 0));
    });
    const bool keep_x = w.defined() && tokens > 0 && !input_follows_from_output(w);
    ctx->save_for_backward({keep_x ? x : Tensor(), w.defined() ? y : Tensor(), w, cos_in, sin_in, inverse_rms});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &y = saved[1], &w = saved[2], &inverse_rms = saved[5], grad = grads[0].contiguous();
    const Tensor cos = per_token(saved[3], grad), sin = per_token(saved[4], grad);
    const int64_t tokens = grad.size(0) * grad.size(1), heads = grad.size(2), width = grad.size(3);
    const int64_t pieces = num_ranges(tokens, 16);
    const auto from = [](const Tensor& t, int64_t at) {
      return t.defined() ? t.const_data_ptr<float>() + at : nullptr;
    };
    Tensor grad_x = at::empty_like(grad), grad_weight = at::zeros({pieces, width}, grad.options());
    for_each_range(tokens, pieces, [&](int64_t piece, int64_t begin, int64_t end) {
      const int64_t at = begin * heads * width, table = begin * (width / 2);
      kernels::rotary_backward({end - begin, heads, width}, from(x, at), from(y, at), data_or_null<float>(w),
                               cos.const_data_ptr<float>() + table, sin.const_data_ptr<float>() + table,
                               inverse_rms.const_data_ptr<float>() + (w.defined() ? begin * heads : 0),
                               grad.const_data_ptr<float>() + at, grad_x.mutable_data_ptr<float>() + at,
                               grad_weight.mutable_data_ptr<float>() + piece * width);
    });
    return {grad_x, w.defined() ? grad_weight.sum(0) : Tensor(), {}, {}, {}};
  }
};

Tensor rotary_cpu(const Tensor& x, const OptTensor& weight, const Tensor& cos, const Tensor& sin, double eps) {
  return fast_path(x) ? RotaryFunction::apply(x, weight, cos, sin, eps) : reference::rotary(x, weight, cos, sin, eps);
}

}  // namespace

Tensor rotary(const Tensor& x, const OptTensor& weight, const Tensor& cos, const Tensor& sin, double eps) {
  TORCH_CHECK(x.dim() == 4 && x.size(3) % 2 == 0, "rotary: x has shape ", x.sizes(),
              ", expected [batch, time, heads, an even width]");
  TORCH_CHECK(cos.size(-1) * 2 == x.size(3) && cos.size(1) == x.size(1), "rotary: cos has shape ", cos.sizes(),
              ", expected [batch or 1, ", x.size(1), ", ", x.size(3) / 2, "]");
  TORCH_CHECK((cos.size(0) == 1 || cos.size(0) == x.size(0)) && sin.sizes() == cos.sizes(), "rotary: cos ", cos.sizes(),
              " and sin ", sin.sizes(), " do not fit the batch of ", x.size(0));
  TORCH_CHECK(!weight || (weight->dim() == 1 && weight->size(0) == x.size(3)), "rotary: weight has shape ",
              weight->sizes(), ", expected [", x.size(3), "]");
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("pmnet::rotary", "").typed<decltype(rotary)>();
  return op.call(x, weight, cos, sin, eps);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("rotary(Tensor x, Tensor? weight, Tensor cos, Tensor sin, float eps) -> Tensor");
}
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) { m.impl("rotary", reference::rotary); }
TORCH_LIBRARY_IMPL(pmnet, CPU, m) { m.impl("rotary", rotary_cpu); }
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) { m.impl("rotary", rotary_cpu); }

}  // namespace pmnet::ops
