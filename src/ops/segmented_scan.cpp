// The segmented scan of the memory. Tasks are (row, slab of channels): a slab's sums do not depend on how many threads
// there are, and integer turns do not depend on anything at all.
#include "kernels/segmented_scan.h"

#include "ops/channel_slabs.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

struct SegmentedScanFunction : torch::autograd::Function<SegmentedScanFunction> {
  // The angles given only carry gradients; values come from the turns.
  static variable_list forward(AutogradContext* ctx, const Tensor& weights_in, const Tensor& update_in,
                               const Tensor& group_in, int64_t G, const OptTensor& path_turns,
                               const OptTensor& path_angle, const OptTensor& initial_turns,
                               const OptTensor& initial_angle, const OptTensor& grad_scale, bool with_angles) {
    const Tensor weights = weights_in.contiguous(), update = update_in.contiguous(), group = group_in.contiguous();
    const int64_t B = weights.size(0), T = weights.size(1), N = weights.size(2), M = update.size(2);
    const Tensor path_in = path_turns ? path_turns->contiguous() : Tensor();
    Tensor path = at::empty({B, T, N, M}, group.options().dtype(at::kInt));
    Tensor state =
        initial_turns ? initial_turns->clone(at::MemoryFormat::Contiguous) : at::zeros({B, G, N, M}, group.options());
    for_each_slab(B, M, T * N * kSlabChannels, [&](int64_t b, int64_t, int64_t begin, int64_t end) {
      kernels::segmented_scan({T, N, M, begin, end}, weights.const_data_ptr<float>() + b * T * N,
                              update.const_data_ptr<float>() + b * T * M, group.const_data_ptr<int64_t>() + b * T,
                              path_in.defined() ? path_in.const_data_ptr<int32_t>() + b * T * N * M : nullptr,
                              state.mutable_data_ptr<int64_t>() + b * G * N * M,
                              path.mutable_data_ptr<int32_t>() + b * T * N * M);
    });
    ctx->save_for_backward({weights, update, group, or_undefined(grad_scale)});
    ctx->saved_data["num_groups"] = G;
    ctx->saved_data["has_path"] = path_angle.has_value();
    ctx->saved_data["has_initial"] = initial_angle.has_value();
    ctx->mark_non_differentiable({path, state});
    const Tensor none = at::empty({0}, weights.options());
    return {path, with_angles ? to_angle(path, at::kFloat) : none, state,
            with_angles ? to_angle(state, at::kFloat) : none.clone()};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &weights = saved[0], &update = saved[1], &group = saved[2];
    const Tensor scale = saved[3].defined() ? saved[3].contiguous() : Tensor();
    const int64_t B = weights.size(0), T = weights.size(1), N = weights.size(2), M = update.size(2);
    const int64_t G = ctx->saved_data["num_groups"].toInt(), slabs = num_slabs(M);
    const Tensor grad_path = grads[1].defined() ? grads[1].contiguous() : at::zeros({B, T, N, M}, weights.options());
    Tensor grad_state = grads[3].defined() ? grads[3].to(at::kDouble).contiguous()
                                           : at::zeros({B, G, N, M}, weights.options().dtype(at::kDouble));
    Tensor grad_update = at::empty_like(update), grad_weights = at::empty({slabs, B, T, N}, weights.options());
    for_each_slab(B, M, T * N * kSlabChannels, [&](int64_t b, int64_t slab, int64_t begin, int64_t end) {
      kernels::segmented_scan_backward(
          {T, N, M, begin, end}, weights.const_data_ptr<float>() + b * T * N,
          update.const_data_ptr<float>() + b * T * M, group.const_data_ptr<int64_t>() + b * T,
          grad_path.const_data_ptr<float>() + b * T * N * M,
          scale.defined() ? scale.const_data_ptr<float>() + b * G : nullptr,
          grad_state.mutable_data_ptr<double>() + b * G * N * M, grad_update.mutable_data_ptr<float>() + b * T * M,
          grad_weights.mutable_data_ptr<float>() + (slab * B + b) * T * N);
    });
    // Absent inputs must get no gradient.
    const auto given = [&](const char* flag, const Tensor& gradient) {
      return ctx->saved_data[flag].toBool() ? gradient : Tensor();
    };
    return {grad_weights.sum(0),
            grad_update,
            {},
            {},
            {},
            given("has_path", grad_path),
            {},
            given("has_initial", grad_state.to(at::kFloat)),
            {},
            {}};
  }
};

using WriteTensors = std::tuple<Tensor, Tensor, Tensor, Tensor>;

WriteTensors segmented_scan_cpu(const Tensor& weights, const Tensor& update, const Tensor& group, int64_t num_groups,
                                const OptTensor& path_turns, const OptTensor& path_angle,
                                const OptTensor& initial_turns, const OptTensor& initial_angle,
                                const OptTensor& grad_scale, bool unconstrained) {
  if (!fast_path(weights) || unconstrained)
    return reference::segmented_scan(weights, update, group, num_groups, path_turns, path_angle, initial_turns,
                                     initial_angle, grad_scale, unconstrained);
  const auto out = SegmentedScanFunction::apply(weights, update, group, num_groups, path_turns, path_angle,
                                                initial_turns, initial_angle, grad_scale, at::GradMode::is_enabled());
  return {out[0], out[1], out[2], out[3]};
}

OptTensor unless_empty(const Tensor& x, bool wanted) { return wanted && x.defined() ? OptTensor(x) : std::nullopt; }

}  // namespace

SegmentedScanResult segmented_scan(const Tensor& weights, const Tensor& update, const Tensor& group, int64_t num_groups,
                                   const Phases& path, const Phases& initial, const OptTensor& grad_scale,
                                   bool unconstrained) {
  TORCH_CHECK(weights.dim() == 3 && update.dim() == 3 && group.dim() == 2, "segmented_scan: weights ", weights.sizes(),
              ", update ", update.sizes(), ", group ", group.sizes(), "; expected [B,T,N], [B,T,M] and [B,T]");
  const std::vector<int64_t> tokens{weights.size(0), weights.size(1)};
  TORCH_CHECK(update.sizes().slice(0, 2) == tokens && group.sizes() == tokens, "segmented_scan: update ",
              update.sizes(), " and group ", group.sizes(), " do not start with ", tokens,
              ", the batch and time of weights");
  const auto check_sizes = [&](const char* what, const Phases& phases, int64_t rows) {
    const std::vector<int64_t> sizes{tokens[0], rows, weights.size(2), update.size(2)};
    for (const OptTensor& x : {phases.turns, phases.angle})
      TORCH_CHECK(!x || x->sizes() == sizes, "segmented_scan: ", what, " has shape ", x->sizes(), ", expected ", sizes);
  };
  check_sizes("the path", path, tokens[1]);
  check_sizes("the initial state", initial, num_groups);
  TORCH_CHECK(group.numel() == 0 || group.max().item<int64_t>() < num_groups,
              "segmented_scan: a group index is not below the number of groups, ", num_groups);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("pmnet::segmented_scan", "")
                             .typed<decltype(reference::segmented_scan)>();
  const auto [turns, angle, final_turns, final_angle] =
      op.call(weights, update, group, num_groups, path.turns, path.angle, initial.turns, initial.angle, grad_scale,
              unconstrained);
  const bool exact = weights.scalar_type() == at::kFloat && !unconstrained;
  const bool angles = !exact || at::GradMode::is_enabled();
  return {.path = {unless_empty(turns, exact), unless_empty(angle, angles)},
          .final_state = {unless_empty(final_turns, exact), unless_empty(final_angle, angles)}};
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def(
      "segmented_scan(Tensor weights, Tensor update, Tensor group, int num_groups, Tensor? path_turns, "
      "Tensor? path_angle, Tensor? initial_turns, Tensor? initial_angle, Tensor? grad_scale, bool unconstrained) "
      "-> (Tensor, Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) { m.impl("segmented_scan", reference::segmented_scan); }
TORCH_LIBRARY_IMPL(pmnet, CPU, m) { m.impl("segmented_scan", segmented_scan_cpu); }
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) { m.impl("segmented_scan", segmented_scan_cpu); }

}  // namespace pmnet::ops
