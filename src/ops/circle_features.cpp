// Eq. 2, left: the features of a phase on the unit circle.
#include "kernels/circle_features.h"

#include "kernels/turns.h"
#include "ops/common.h"

namespace pmnet::ops {
namespace {

Tensor reference(const Phases& path, const Tensor& anchors, const Tensor& group, bool unconstrained) {
  const int64_t B = group.size(0), T = group.size(1), N = anchors.size(1), M = anchors.size(2);
  Tensor theta = anchors.index_select(0, group.clamp_min(0).reshape(-1)).view({B, T, N, M});
  if (path.angle) {
    theta = theta + *path.angle;
  } else if (path.turns) {
    theta = theta + to_angle(*path.turns, anchors.scalar_type());
  }
  if (unconstrained) return at::cat({theta, at::zeros_like(theta)}, -1);
  return at::cat({theta.sin(), theta.cos()}, -1);
}

// Anchors as 32-bit turns, rounded to nearest.
Tensor anchor_turns(const Tensor& radians) {
  const Tensor turns = at::empty(radians.sizes(), radians.options().dtype(at::kLong));
  kernels::radians_to_turns(radians.numel(), data_at(radians), mutable_data_at<int64_t>(turns));
  return (turns + (int64_t{1} << 31)).__rshift__(32).to(at::kInt);
}

struct CircleFeatures : KernelFunction<CircleFeatures> {
  static constexpr const char* kName = "circle_features";

  // `angle` only carries the gradient; the value comes from the turns.
  static Tensor forward(AutogradContext* ctx, const OptTensor& turns, const OptTensor& angle, const Tensor& anchors,
                        const Tensor& group_in) {
    const Tensor group = group_in.contiguous(), anchor = anchor_turns(anchors.contiguous());
    const Tensor path = contiguous_or_undefined(turns);
    const int64_t B = group.size(0), T = group.size(1), N = anchors.size(1), M = anchors.size(2), tokens = B * T;
    const Tensor features = at::empty({B, T, N, 2 * M}, anchors.options());
    for_each_range(tokens, num_ranges(tokens, 8), [&](int64_t, int64_t begin, int64_t end) {
      kernels::circle_features(end - begin, N, M, data_at<int32_t>(path, begin * N * M), data_at<int32_t>(anchor),
                               data_at<int64_t>(group, begin), mutable_data_at(features, begin * N * 2 * M));
    });
    ctx->save_for_backward({features, group});
    ctx->saved_data["num_groups"] = anchors.size(0);
    ctx->saved_data["has_angle"] = angle.has_value();
    return features;
  }

  // The gradient of the angle, and its sum over the tokens of each group for the anchors (in double: a group may have
  // thousands of tokens).
  static variable_list gradients(AutogradContext* ctx, const variable_list& saved, variable_list grads) {
    const Tensor &features = saved[0], &group = saved[1], grad = grads[0].contiguous();
    const int64_t B = features.size(0), T = features.size(1), N = features.size(2), M = features.size(3) / 2;
    const int64_t tokens = B * T, G = ctx->saved_data["num_groups"].toInt(), width = N * M;
    const Tensor grad_angle = at::empty({B, T, N, M}, features.options());
    for_each_range(tokens, num_ranges(tokens, 8), [&](int64_t, int64_t begin, int64_t end) {
      const int64_t at = begin * width;
      kernels::circle_features_backward((end - begin) * N, M, data_at(features, 2 * at), data_at(grad, 2 * at),
                                        mutable_data_at(grad_angle, at));
    });
    const Tensor grad_anchors = at::zeros({G, N, M}, features.options().dtype(at::kDouble));
    for_each_range(width, num_ranges(width, 32), [&](int64_t, int64_t begin, int64_t end) {
      kernels::sum_by_group(tokens, width, begin, end, data_at(grad_angle), data_at<int64_t>(group),
                            mutable_data_at<double>(grad_anchors));
    });
    // An absent input must get no gradient.
    return {{}, ctx->saved_data["has_angle"].toBool() ? grad_angle : Tensor(), grad_anchors.to(at::kFloat), {}};
  }
};

}  // namespace

Tensor circle_features(const Phases& path, const Tensor& anchors, const Tensor& group, bool unconstrained) {
  TORCH_CHECK(anchors.dim() == 3 && group.dim() == 2 && (anchors.size(0) > 0 || group.numel() == 0),
              "circle_features: anchors ", anchors.sizes(), " and group ", group.sizes(),
              "; expected [groups, slots, size] and [batch, time]");
  const std::vector<int64_t> sizes{group.size(0), group.size(1), anchors.size(1), anchors.size(2)};
  for (const OptTensor& x : {path.turns, path.angle})
    TORCH_CHECK(!x || x->sizes() == sizes, "circle_features: the path has shape ", x->sizes(), "; expected ", sizes);
  check_indices("circle_features", "group", group, anchors.size(0));
  const bool exact = path.turns || !path.angle;  // angles alone are values that turns would round
  // Turns cannot represent NaN, infinity or huge anchors: those take the reference, which gives NaN where it must.
  const bool fast = exact && !unconstrained && use_kernels(anchors, path.angle) && has_data(path.turns, at::kInt) &&
                    has_data(group, at::kLong) &&
                    kernels::all_within(anchors.numel(), data_at(anchors.contiguous()), kernels::kMaxRadians);
  return fast ? CircleFeatures::apply(path.turns, path.angle, anchors, group)
              : reference(path, anchors, group, unconstrained);
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def("circle_features(Tensor? turns, Tensor? angle, Tensor anchors, Tensor group, bool unconstrained) -> Tensor",
        [](const OptTensor& turns, const OptTensor& angle, const Tensor& anchors, const Tensor& group,
           bool unconstrained) { return circle_features({turns, angle}, anchors, group, unconstrained); });
}

}  // namespace pmnet::ops
