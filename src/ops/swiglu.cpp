#include "kernels/swiglu.h"

#include "ops/common.h"

namespace pmnet::ops {
namespace {

constexpr int64_t kMinFloatsPerRange = 8192;

Tensor swiglu_all(const Tensor& gate, const Tensor& up) {
  const Tensor y = at::empty_like(gate);
  for_each_range(y.numel(), num_ranges(y.numel(), kMinFloatsPerRange), [&](int64_t, int64_t begin, int64_t end) {
    kernels::swiglu(end - begin, data_at(gate, begin), data_at(up, begin), mutable_data_at(y, begin));
  });
  return y;
}

// The gradients of gate and up.
variable_list swiglu_all_backward(const Tensor& gate, const Tensor& up, const Tensor& grad) {
  const Tensor grad_gate = at::empty_like(gate), grad_up = at::empty_like(up);
  for_each_range(gate.numel(), num_ranges(gate.numel(), kMinFloatsPerRange), [&](int64_t, int64_t begin, int64_t end) {
    kernels::swiglu_backward(end - begin, data_at(gate, begin), data_at(up, begin), data_at(grad, begin),
                             mutable_data_at(grad_gate, begin), mutable_data_at(grad_up, begin));
  });
  return {grad_gate, grad_up};
}

Tensor reference(const Tensor& gate, const Tensor& up) { return at::silu(gate) * up; }

struct Swiglu : KernelFunction<Swiglu> {
  static constexpr const char* kName = "swiglu";

  static Tensor forward(AutogradContext* ctx, const Tensor& gate_in, const Tensor& up_in) {
    const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
    ctx->save_for_backward({gate, up});
    return swiglu_all(gate, up);
  }

  static variable_list gradients(AutogradContext*, const variable_list& saved, variable_list grads) {
    return swiglu_all_backward(saved[0], saved[1], grads[0].contiguous());
  }
};

// silu(gate) * up is recomputed in the backward pass rather than kept.
struct SwigluLinear : KernelFunction<SwigluLinear> {
  static constexpr const char* kName = "swiglu_linear";

  static Tensor forward(AutogradContext* ctx, const Tensor& gate_in, const Tensor& up_in, const Tensor& weight,
                        const OptTensor& bias) {
    const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
    ctx->save_for_backward({gate, up, weight});
    ctx->saved_data["biased"] = bias.has_value();
    return at::linear(swiglu_all(gate, up), weight, or_undefined(bias));
  }

  static variable_list gradients(AutogradContext* ctx, const variable_list& saved, variable_list grads) {
    const Tensor &gate = saved[0], &up = saved[1], &weight = saved[2];
    const Tensor grad = grads[0].reshape({-1, weight.size(0)});
    const Tensor grad_weight = grad.t().mm(swiglu_all(gate, up).view({grad.size(0), weight.size(1)}));
    variable_list all = swiglu_all_backward(gate, up, grad.mm(weight));
    all.push_back(grad_weight);
    all.push_back(ctx->saved_data["biased"].toBool() ? grad.sum(0) : Tensor());
    return all;
  }
};

void check_equal_shapes(const char* op, const Tensor& gate, const Tensor& up) {
  TORCH_CHECK(gate.sizes() == up.sizes(), op, ": gate has shape ", gate.sizes(), " and up ", up.sizes(),
              "; they must be equal");
}

}  // namespace

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  check_equal_shapes("swiglu", gate, up);
  return use_kernels(gate, up) ? Swiglu::apply(gate, up) : reference(gate, up);
}

Tensor swiglu_linear(const Tensor& gate, const Tensor& up, const Tensor& weight, const OptTensor& bias) {
  check_equal_shapes("swiglu_linear", gate, up);
  TORCH_CHECK(gate.dim() >= 1 && weight.dim() == 2 && weight.size(1) == gate.size(-1), "swiglu_linear: gate ",
              gate.sizes(), " and weight ", weight.sizes(), " do not fit; expected [..., width] and [outputs, width]");
  return use_kernels(gate, up, weight, bias) ? SwigluLinear::apply(gate, up, weight, bias)
                                             : at::linear(reference(gate, up), weight, bias);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor", swiglu);
  m.def("swiglu_linear(Tensor gate, Tensor up, Tensor weight, Tensor? bias) -> Tensor", swiglu_linear);
}

}  // namespace pmnet::ops
