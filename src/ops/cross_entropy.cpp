#include "kernels/cross_entropy.h"

#include "ops/common.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

// The logits exist once: the forward turns them into softmax - onehot, which is all the backward needs.
struct CrossEntropyFunction : torch::autograd::Function<CrossEntropyFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& hidden, const Tensor& weight, const Tensor& targets_in) {
    const Tensor targets = targets_in.contiguous();
    const int64_t rows = hidden.size(0), vocab = weight.size(0);
    Tensor residual = at::mm(hidden, weight.t()), loss = at::empty({rows}, hidden.options());
    for_each_range(rows, num_ranges(rows, 8), [&](int64_t, int64_t begin, int64_t end) {
      kernels::cross_entropy(end - begin, vocab, residual.mutable_data_ptr<float>() + begin * vocab,
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

Tensor cross_entropy_cpu(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  return fast_path(hidden) ? CrossEntropyFunction::apply(hidden, weight, targets)
                           : reference::cross_entropy(hidden, weight, targets);
}

}  // namespace

Tensor cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  TORCH_CHECK(hidden.dim() == 2 && targets.dim() == 1 && hidden.size(0) == targets.size(0) && weight.dim() == 2 &&
                  weight.size(1) == hidden.size(1),
              "cross_entropy: hidden ", hidden.sizes(), ", weight ", weight.sizes(), " and targets ", targets.sizes(),
              " do not fit; expected [n, width], [vocabulary, width] and [n]");
  TORCH_CHECK(targets.numel() == 0 || targets.max().item<int64_t>() < weight.size(0),
              "cross_entropy: a target is not below the vocabulary size ", weight.size(0));
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("pmnet::cross_entropy", "").typed<decltype(cross_entropy)>();
  return op.call(hidden, weight, targets);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) { m.def("cross_entropy(Tensor hidden, Tensor weight, Tensor targets) -> Tensor"); }
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) { m.impl("cross_entropy", reference::cross_entropy); }
TORCH_LIBRARY_IMPL(pmnet, CPU, m) { m.impl("cross_entropy", cross_entropy_cpu); }
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) { m.impl("cross_entropy", cross_entropy_cpu); }

}  // namespace pmnet::ops
