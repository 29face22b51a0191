#include "ops/rms_norm.h"

#include "kernels/rms_norm.h"

namespace pmnet::ops {

RmsNormRows rms_norm_rows(const Tensor& x, const Tensor& weight, double eps) {
  const int64_t width = x.size(-1), rows = width == 0 ? 0 : x.numel() / width;
  const int64_t min_rows = 4096 / std::max<int64_t>(width, 1) + 1;  // about 4,096 floats are worth a task
  const RmsNormRows out{at::empty_like(x), at::empty({rows}, x.options())};
  for_each_range(rows, num_ranges(rows, min_rows), [&](int64_t, int64_t begin, int64_t end) {
    kernels::rms_norm(end - begin, width, data_at(x, begin * width), data_at(weight), eps,
                      mutable_data_at(out.y, begin * width), mutable_data_at(out.inverse_rms, begin));
  });
  return out;
}

RmsNormGradients rms_norm_rows_backward(const Tensor& x, const Tensor& weight, const Tensor& inverse_rms,
                                        const Tensor& grad_y) {
  const int64_t width = x.size(-1), rows = inverse_rms.size(0), ranges = num_ranges(rows, 16);
  // The gradient of the weight is a sum over rows: one partial sum per range, added in a fixed order.
  const Tensor grad_x = at::empty_like(x), grad_weight = at::zeros({ranges, width}, x.options());
  for_each_range(rows, ranges, [&](int64_t range, int64_t begin, int64_t end) {
    const int64_t at = begin * width;
    kernels::rms_norm_backward(end - begin, width, data_at(x, at), data_at(weight), data_at(inverse_rms, begin),
                               data_at(grad_y, at), mutable_data_at(grad_x, at),
                               mutable_data_at(grad_weight, range * width));
  });
  return {grad_x, grad_weight.sum(0)};
}

void check_rms_norm(const char* op, const Tensor& x, const Tensor& weight) {
  TORCH_CHECK(x.dim() >= 1 && weight.dim() == 1 && weight.size(0) == x.size(-1), op, ": x ", x.sizes(),
              " and the weight of the norm ", weight.sizes(), " do not fit; expected [..., width] and [width]");
}

Tensor rms_norm_reference(const Tensor& x, const Tensor& weight, double eps) {
  return weight * (x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps));
}

namespace {

struct RmsNorm : KernelFunction<RmsNorm> {
  static constexpr const char* kName = "rms_norm";

  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& weight_in, double eps) {
    const Tensor x = x_in.contiguous(), weight = weight_in.contiguous();
    const RmsNormRows out = rms_norm_rows(x, weight, eps);
    ctx->save_for_backward({x, weight, out.inverse_rms});
    return out.y;
  }

  static variable_list gradients(AutogradContext*, const variable_list& saved, variable_list grads) {
    const auto [grad_x, grad_weight] = rms_norm_rows_backward(saved[0], saved[1], saved[2], grads[0].contiguous());
    return {grad_x, grad_weight, {}};
  }
};

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  check_rms_norm("rms_norm", x, weight);
  return use_kernels(x, weight) ? RmsNorm::apply(x, weight, eps) : rms_norm_reference(x, weight, eps);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) { m.def("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor", rms_norm); }

}  // namespace pmnet::ops
