#include "kernels/rows.h"
#include "ops/common.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

// The logits exist once: the forward turns them into softmax - onehot, which is all the backward needs.
struct ByteLossFunction : torch::autograd::Function<ByteLossFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& hidden, const Tensor& weight, const Tensor& targets_in) {
    const Tensor targets = targets_in.contiguous();
    const int64_t rows = hidden.size(0), vocab = weight.size(0);
    Tensor residual = at::mm(hidden, weight.t()), loss = at::empty({rows}, hidden.options());
    for_each_range(rows, num_ranges(rows, 8), [&](int64_t, int64_t begin, int64_t end) {
      kernels::byte_loss_rows(end - begin, vocab, residual.mutable_data_ptr<float>() + begin * vocab,
                              targets.const_data_ptr<int64_t>() + begin, loss.mutable_data_ptr<float>() + begin);
    });
    ctx->save_for_backward({hidden, weight, residual});
    return loss;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &hidden = saved[0], &weight = saved[1], &residual = saved[2], grad = grads[0].unsqueeze(1);
    return {residual.mm(weight).mul_(grad), residual.t().mm(hidden * grad), {}};
  }
};

Tensor byte_loss_cpu(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  return fast_path(hidden) ? ByteLossFunction::apply(hidden, weight, targets)
                           : reference::byte_loss(hidden, weight, targets);
}

}  // namespace

Tensor byte_loss(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  TORCH_CHECK(hidden.dim() == 2 && targets.dim() == 1 && hidden.size(0) == targets.size(0) && weight.dim() == 2 &&
                  weight.size(1) == hidden.size(1),
              "byte_loss: hidden ", hidden.sizes(), ", weight ", weight.sizes(), " and targets ", targets.sizes(),
              " do not fit; expected [n, width], [vocabulary, width] and [n]");
  TORCH_CHECK(targets.numel() == 0 || targets.max().item<int64_t>() < weight.size(0),
              "byte_loss: a target is not below the vocabulary size ", weight.size(0));
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("pmnet::byte_loss", "").typed<decltype(byte_loss)>();
  return op.call(hidden, weight, targets);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) { m.def("byte_loss(Tensor hidden, Tensor weight, Tensor targets) -> Tensor"); }
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) { m.impl("byte_loss", reference::byte_loss); }
TORCH_LIBRARY_IMPL(pmnet, CPU, m) { m.impl("byte_loss", byte_loss_cpu); }
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) { m.impl("byte_loss", byte_loss_cpu); }

}  // namespace pmnet::ops
