#include "kernels/rms_norm.h"

#include "ops/common.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& weight, double eps) {
    const Tensor x = x_in.contiguous();
    const int64_t width = x.size(-1), rows = width == 0 ? 0 : x.numel() / width;
    Tensor y = at::empty_like(x), inverse_rms = at::empty({rows}, x.options());
    for_each_range(rows, num_ranges(rows, 4096 / std::max<int64_t>(width, 1) + 1),
                   [&, w = weight.contiguous()](int64_t, int64_t begin, int64_t end) {
                     kernels::rms_norm(end - begin, width, x.const_data_ptr<float>() + begin * width,
                                       w.const_data_ptr<float>(), eps, y.mutable_data_ptr<float>() + begin * width,
                                       inverse_rms.mutable_data_ptr<float>() + begin);
                   });
    ctx->save_for_backward({x, weight, inverse_rms});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], weight = saved[1].contiguous(), &inverse_rms = saved[2];
    const Tensor grad = grads[0].contiguous();
    const int64_t width = x.size(-1), rows = inverse_rms.size(0), pieces = num_ranges(rows, 16);
    Tensor grad_x = at::empty_like(x), grad_weight = at::zeros({pieces, width}, x.options());
    for_each_range(rows, pieces, [&](int64_t piece, int64_t begin, int64_t end) {
      const int64_t at = begin * width;
      kernels::rms_norm_backward(end - begin, width, x.const_data_ptr<float>() + at, weight.const_data_ptr<float>(),
                                 inverse_rms.const_data_ptr<float>() + begin, grad.const_data_ptr<float>() + at,
                                 grad_x.mutable_data_ptr<float>() + at,
                                 grad_weight.mutable_data_ptr<float>() + piece * width);
    });
    return {grad_x, grad_weight.sum(0), {}};
  }
};

Tensor rms_norm_cpu(const Tensor& x, const Tensor& weight, double eps) {
  return fast_path(x) ? RmsNormFunction::apply(x, weight, eps) : reference::rms_norm(x, weight, eps);
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  TORCH_CHECK(weight.dim() == 1 && weight.size(0) == x.size(-1), "rms_norm: weight has shape ", weight.sizes(),
              ", expected [", x.size(-1), "], the last dimension of x");
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("pmnet::rms_norm", "").typed<decltype(rms_norm)>();
  return op.call(x, weight, eps);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) { m.def("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor"); }
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) { m.impl("rms_norm", reference::rms_norm); }
// A CPU kernel switches the composite's gradient off on CPU, so the two below always come together.
TORCH_LIBRARY_IMPL(pmnet, CPU, m) { m.impl("rms_norm", rms_norm_cpu); }
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) { m.impl("rms_norm", rms_norm_cpu); }

}  // namespace pmnet::ops
