#include "kernels/circle_features.h"

#include "ops/common.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

// Anchors as 32-bit turns, rounded to nearest: the sum with a path then wraps exactly and needs no range reduction.
Tensor anchor_turns(const Tensor& anchors) {
  const Tensor radians = anchors.contiguous();
  Tensor turns = at::empty(radians.sizes(), radians.options().dtype(at::kLong));
  kernels::radians_to_turns(radians.numel(), radians.const_data_ptr<float>(), turns.mutable_data_ptr<int64_t>());
  return turns.add_(int64_t{1} << 31).__rshift__(32).to(at::kInt);
}

struct CircleFeaturesFunction : torch::autograd::Function<CircleFeaturesFunction> {
  // `angle` only carries the gradient; the value comes from the turns.
  static Tensor forward(AutogradContext* ctx, const OptTensor& turns, const OptTensor& angle, const Tensor& anchors,
                        const Tensor& group_in) {
    const Tensor group = group_in.contiguous(), anchor = anchor_turns(anchors);
    const Tensor path = turns ? turns->contiguous() : Tensor();
    const int64_t B = group.size(0), T = group.size(1), N = anchors.size(1), M = anchors.size(2), tokens = B * T;
    Tensor features = at::empty({B, T, N, 2 * M}, anchors.options());
    for_each_range(tokens, num_ranges(tokens, 8), [&](int64_t, int64_t begin, int64_t end) {
      kernels::circle_features(end - begin, N, M,
                               path.defined() ? path.const_data_ptr<int32_t>() + begin * N * M : nullptr,
                               anchor.const_data_ptr<int32_t>(), group.const_data_ptr<int64_t>() + begin,
                               features.mutable_data_ptr<float>() + begin * N * 2 * M);
    });
    ctx->save_for_backward({features, group});
    ctx->saved_data["num_groups"] = anchors.size(0);
    ctx->saved_data["has_angle"] = angle.has_value();
    return features;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &features = saved[0], &group = saved[1], grad = grads[0].contiguous();
    const int64_t B = features.size(0), T = features.size(1), N = features.size(2), M = features.size(3) / 2;
    const int64_t tokens = B * T, G = ctx->saved_data["num_groups"].toInt(), width = N * M;
    Tensor grad_angle = at::empty({B, T, N, M}, features.options());
    for_each_range(tokens, num_ranges(tokens, 8), [&](int64_t, int64_t begin, int64_t end) {
      const int64_t at = begin * width;
      kernels::circle_features_backward((end - begin) * N, M, features.const_data_ptr<float>() + 2 * at,
                                        grad.const_data_ptr<float>() + 2 * at,
                                        grad_angle.mutable_data_ptr<float>() + at);
    });
    Tensor grad_anchors = at::zeros({G, N, M}, features.options().dtype(at::kDouble));
    for_each_range(width, num_ranges(width, 32), [&](int64_t, int64_t begin, int64_t end) {
      kernels::sum_by_group(tokens, width, begin, end, grad_angle.const_data_ptr<float>(),
                            group.const_data_ptr<int64_t>(), grad_anchors.mutable_data_ptr<double>());
    });
    // An absent input must get no gradient.
    return {{}, ctx->saved_data["has_angle"].toBool() ? grad_angle : Tensor(), grad_anchors.to(at::kFloat), {}};
  }
};

Tensor circle_features_cpu(const OptTensor& turns, const OptTensor& angle, const Tensor& anchors, const Tensor& group,
                           bool unconstrained) {
  const bool exact = turns.has_value() || !angle.has_value();
  return fast_path(anchors) && exact && !unconstrained
             ? CircleFeaturesFunction::apply(turns, angle, anchors, group)
             : reference::circle_features(turns, angle, anchors, group, unconstrained);
}

}  // namespace

Tensor circle_features(const Phases& path, const Tensor& anchors, const Tensor& group, bool unconstrained) {
  TORCH_CHECK(anchors.dim() == 3 && group.dim() == 2, "circle_features: anchors ", anchors.sizes(), " and group ",
              group.sizes(), "; expected [groups, slots, size] and [batch, time]");
  const std::vector<int64_t> sizes{group.size(0), group.size(1), anchors.size(1), anchors.size(2)};
  for (const OptTensor& x : {path.turns, path.angle})
    TORCH_CHECK(!x || x->sizes() == sizes, "circle_features: the path has shape ", x->sizes(), ", expected ", sizes);
  TORCH_CHECK(group.numel() == 0 || group.max().item<int64_t>() < anchors.size(0),
              "circle_features: a group index is not below the number of groups, ", anchors.size(0));
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("pmnet::circle_features", "")
                             .typed<decltype(reference::circle_features)>();
  return op.call(path.turns, path.angle, anchors, group, unconstrained);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("circle_features(Tensor? turns, Tensor? angle, Tensor anchors, Tensor group, bool unconstrained) -> Tensor");
}
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) { m.impl("circle_features", reference::circle_features); }
TORCH_LIBRARY_IMPL(pmnet, CPU, m) { m.impl("circle_features", circle_features_cpu); }
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) { m.impl("circle_features", circle_features_cpu); }

}  // namespace pmnet::ops
