#include "kernels/swiglu.h"

#include "ops/common.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

constexpr int64_t kFloatsWorthATask = 8192;

Tensor activated(const Tensor& gate, const Tensor& up) {
  Tensor y = at::empty_like(gate);
  for_each_range(y.numel(), num_ranges(y.numel(), kFloatsWorthATask), [&](int64_t, int64_t begin, int64_t end) {
    kernels::swiglu(end - begin, gate.const_data_ptr<float>() + begin, up.const_data_ptr<float>() + begin,
                    y.mutable_data_ptr<float>() + begin);
  });
  return y;
}

// The gradients of gate and up.
variable_list activated_backward(const Tensor& gate, const Tensor& up, const Tensor& grad) {
  Tensor grad_gate = at::empty_like(gate), grad_up = at::empty_like(up);
  for_each_range(gate.numel(), num_ranges(gate.numel(), kFloatsWorthATask), [&](int64_t, int64_t begin, int64_t end) {
    kernels::swiglu_backward(end - begin, gate.const_data_ptr<float>() + begin, up.const_data_ptr<float>() + begin,
                             grad.const_data_ptr<float>() + begin, grad_gate.mutable_data_ptr<float>() + begin,
                             grad_up.mutable_data_ptr<float>() + begin);
  });
  return {grad_gate, grad_up};
}

struct SwigluFunction : torch::autograd::Function<SwigluFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_in, const Tensor& up_in) {
    const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
    ctx->save_for_backward({gate, up});
    return activated(gate, up);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    return activated_backward(saved[0], saved[1], grads[0].contiguous());
  }
};

// silu(gate) * up is found again in the backward pass rather than kept.
struct SwigluLinearFunction : torch::autograd::Function<SwigluLinearFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_in, const Tensor& up_in, const Tensor& weight,
                        const OptTensor& bias) {
    const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
    ctx->save_for_backward({gate, up, weight});
    ctx->saved_data["biased"] = bias.has_value();
    return at::linear(activated(gate, up), weight, or_undefined(bias));
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &gate = saved[0], &up = saved[1], &weight = saved[2];
    const Tensor grad = grads[0].reshape({-1, weight.size(0)});
    const Tensor grad_weight = grad.t().mm(activated(gate, up).view({grad.size(0), weight.size(1)}));
    variable_list all = activated_backward(gate, up, grad.mm(weight));
    all.push_back(grad_weight);
    all.push_back(ctx->saved_data["biased"].toBool() ? grad.sum(0) : Tensor());
    return all;
  }
};

Tensor swiglu_cpu(const Tensor& gate, const Tensor& up) {
  return fast_path(gate) ? SwigluFunction::apply(gate, up) : reference::swiglu(gate, up);
}

Tensor swiglu_linear_cpu(const Tensor& gate, const Tensor& up, const Tensor& weight, const OptTensor& bias) {
  return fast_path(gate) ? SwigluLinearFunction::apply(gate, up, weight, bias)
                         : reference::swiglu_linear(gate, up, weight, bias);
}

void check_equal_shapes(const Tensor& gate, const Tensor& up) {
  TORCH_CHECK(gate.sizes() == up.sizes(), "swiglu: gate has shape ", gate.sizes(), " and up ", up.sizes(),
              "; they must be equal");
}

}  // namespace

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  check_equal_shapes(gate, up);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("pmnet::swiglu", "").typed<decltype(swiglu)>();
  return op.call(gate, up);
}

Tensor swiglu_linear(const Tensor& gate, const Tensor& up, const Tensor& weight, const OptTensor& bias) {
  check_equal_shapes(gate, up);
  TORCH_CHECK(weight.dim() == 2 && weight.size(1) == gate.size(-1), "swiglu_linear: weight has shape ", weight.sizes(),
              ", expected [outputs, ", gate.size(-1), "]");
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("pmnet::swiglu_linear", "").typed<decltype(swiglu_linear)>();
  return op.call(gate, up, weight, bias);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  m.def("swiglu_linear(Tensor gate, Tensor up, Tensor weight, Tensor? bias) -> Tensor");
}
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) {
  m.impl("swiglu", reference::swiglu);
  m.impl("swiglu_linear", reference::swiglu_linear);
}
TORCH_LIBRARY_IMPL(pmnet, CPU, m) {
  m.impl("swiglu", swiglu_cpu);
  m.impl("swiglu_linear", swiglu_linear_cpu);
}
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) {
  m.impl("swiglu", swiglu_cpu);
  m.impl("swiglu_linear", swiglu_linear_cpu);
}

}  // namespace pmnet::ops
