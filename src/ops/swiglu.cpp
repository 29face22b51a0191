#include "kernels/rows.h"
#include "ops/common.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

constexpr int64_t kFloatsWorthATask = 8192;

struct SwigluFunction : torch::autograd::Function<SwigluFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_in, const Tensor& up_in) {
    const Tensor gate = gate_in.contiguous(), up = up_in.contiguous();
    Tensor y = at::empty_like(gate);
    for_each_range(y.numel(), num_ranges(y.numel(), kFloatsWorthATask), [&](int64_t, int64_t begin, int64_t end) {
      kernels::swiglu(end - begin, gate.const_data_ptr<float>() + begin, up.const_data_ptr<float>() + begin,
                      y.mutable_data_ptr<float>() + begin);
    });
    ctx->save_for_backward({gate, up});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &gate = saved[0], &up = saved[1], grad = grads[0].contiguous();
    Tensor grad_gate = at::empty_like(gate), grad_up = at::empty_like(up);
    for_each_range(gate.numel(), num_ranges(gate.numel(), kFloatsWorthATask), [&](int64_t, int64_t begin, int64_t end) {
      kernels::swiglu_backward(end - begin, gate.const_data_ptr<float>() + begin, up.const_data_ptr<float>() + begin,
                               grad.const_data_ptr<float>() + begin, grad_gate.mutable_data_ptr<float>() + begin,
                               grad_up.mutable_data_ptr<float>() + begin);
    });
    return {grad_gate, grad_up};
  }
};

Tensor swiglu_cpu(const Tensor& gate, const Tensor& up) {
  return fast_path(gate) ? SwigluFunction::apply(gate, up) : reference::swiglu(gate, up);
}

}  // namespace

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  TORCH_CHECK(gate.sizes() == up.sizes(), "swiglu: gate has shape ", gate.sizes(), " and up ", up.sizes(),
              "; they must be equal");
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("pmnet::swiglu", "").typed<decltype(swiglu)>();
  return op.call(gate, up);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) { m.def("swiglu(Tensor gate, Tensor up) -> Tensor"); }
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) { m.impl("swiglu", reference::swiglu); }
TORCH_LIBRARY_IMPL(pmnet, CPU, m) { m.impl("swiglu", swiglu_cpu); }
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) { m.impl("swiglu", swiglu_cpu); }

}  // namespace pmnet::ops
