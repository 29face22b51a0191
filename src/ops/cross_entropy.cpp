// The language-model head and its loss in one op, so that the logits [n, V] exist once: the forward pass overwrites
// them with softmax - onehot, which is all that the backward pass needs.
#include "kernels/cross_entropy.h"

#include "ops/common.h"

namespace pmnet::ops {
namespace {

Tensor reference(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  const Tensor log_p = at::linear(hidden, weight).log_softmax(-1);
  const Tensor nll = -log_p.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1);
  return nll.masked_fill(targets < 0, 0);  // not a product, which would turn the NaN of a padded row into NaN
}

struct CrossEntropy : KernelFunction<CrossEntropy> {
  static constexpr const char* kName = "cross_entropy";

  static Tensor forward(AutogradContext* ctx, const Tensor& hidden, const Tensor& weight, const Tensor& targets_in) {
    const Tensor targets = targets_in.contiguous();
    const int64_t rows = hidden.size(0), vocab = weight.size(0);
    const Tensor residual = at::mm(hidden, weight.t()), loss = at::empty({rows}, hidden.options());
    for_each_range(rows, num_ranges(rows, 8), [&](int64_t, int64_t begin, int64_t end) {
      kernels::cross_entropy(end - begin, vocab, mutable_data_at(residual, begin * vocab),
                             data_at<int64_t>(targets, begin), mutable_data_at(loss, begin));
    });
    ctx->save_for_backward({hidden, weight, residual});
    return loss;
  }

  // loss depends on the logits z = W h: dz = grad (softmax - onehot) = grad residual.
  static variable_list gradients(AutogradContext*, const variable_list& saved, variable_list grads) {
    const Tensor &hidden = saved[0], &weight = saved[1], &residual = saved[2], grad = grads[0].unsqueeze(1);
    return {residual.mm(weight).mul_(grad), residual.t().mm(hidden * grad), {}};
  }
};

}  // namespace

Tensor cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets) {
  TORCH_CHECK(hidden.dim() == 2 && targets.dim() == 1 && hidden.size(0) == targets.size(0) && weight.dim() == 2 &&
                  weight.size(1) == hidden.size(1),
              "cross_entropy: hidden ", hidden.sizes(), ", weight ", weight.sizes(), " and targets ", targets.sizes(),
              " do not fit; expected [n, width], [vocabulary, width] and [n]");
  check_indices("cross_entropy", "targets", targets, weight.size(0));
  return use_kernels(hidden, weight) && has_data(targets, at::kLong) ? CrossEntropy::apply(hidden, weight, targets)
                                                                     : reference(hidden, weight, targets);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("cross_entropy(Tensor hidden, Tensor weight, Tensor targets) -> Tensor", cross_entropy);
}

}  // namespace pmnet::ops
