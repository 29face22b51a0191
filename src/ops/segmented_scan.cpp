// The segmented scan of the memory (Eq. 5, 6, 9 and Algorithm 1). Tasks are (row, slab of channels): the sums of a slab
// do not depend on the number of threads, and sums of integer turns do not depend on any order.
#include "kernels/segmented_scan.h"

#include "kernels/turns.h"
#include "ops/channel_slabs.h"

namespace pmnet::ops {
namespace {

using ScanTensors = std::tuple<Tensor, Tensor, Tensor, Tensor>;  // turns and angle of the path, then of the final state

// A tensor with the value of `value` and the gradient of `gradient`.
Tensor with_gradient_of(const Tensor& value, const Tensor& gradient) {
  return value + (gradient - gradient.detach()).to(value.scalar_type());
}

// Algorithm 1 in plain ATen: sums over time within each segment. x [B,T,...]; key [B*T] names the segment of each
// token.
Tensor segmented_cumsum(const Tensor& x, const Tensor& key) {
  const Tensor flat = x.flatten(0, 1);
  const Tensor order = std::get<1>(key.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false));
  const Tensor sorted_key = key.index_select(0, order);
  const Tensor sums = flat.index_select(0, order).cumsum(0);
  // Where does the segment of each sorted token start? The sum before that position is to be subtracted.
  const Tensor start = at::searchsorted(sorted_key, sorted_key);
  const Tensor before = at::cat({at::zeros_like(sums.narrow(0, 0, 1)), sums}, 0).index_select(0, start);
  const Tensor inverse = std::get<1>(order.sort());
  return (sums - before).index_select(0, inverse).view_as(x);
}

ScanTensors reference(const Tensor& weights, const Tensor& update, const Tensor& group, int64_t G, const Phases& path,
                      const Phases& initial, const OptTensor& grad_scale, bool unconstrained) {
  const int64_t B = weights.size(0), T = weights.size(1), N = weights.size(2), M = update.size(2);
  const auto dtype = weights.scalar_type();
  const Tensor padding = (group < 0).view({B, T, 1, 1});
  const Tensor row = at::arange(B, group.options()).unsqueeze(1);  // [B,1]
  const Tensor key = (row * G + group.clamp_min(0)).reshape(-1);   // [B*T]
  const auto gather = [&](const Tensor& per_group) {               // [B,G,...] -> [B,T,...]
    return per_group.flatten(0, 1).index_select(0, key).unflatten(0, {B, T});
  };
  const Tensor delta = (weights.unsqueeze(-1) * update.unsqueeze(-2)).masked_fill(padding, 0);  // [B,T,N,M]  Eq. 5
  if (B * T == 0) {
    const Tensor empty = at::empty({B, T, N, M}, delta.options());
    const Tensor state = initial.angle ? *initial.angle : at::zeros({B, G, N, M}, delta.options());
    const Tensor turns = initial.turns ? *initial.turns : at::zeros({B, G, N, M}, group.options());
    return {empty.to(at::kInt), empty, turns, state};
  }
  // The running sums and the final ones, of angles in double or of turns in int64; padding has a running sum of zero.
  const auto segmented_sums = [&](const Tensor& addend, const OptTensor& before) {
    Tensor running = segmented_cumsum(addend, key);
    Tensor last = at::zeros({B * G, N, M}, addend.options()).index_add(0, key, addend.flatten(0, 1)).view({B, G, N, M});
    if (before) {
      running = running + gather(*before);
      last = last + *before;
    }
    return std::pair(running.masked_fill(padding, 0), last);
  };

  // The differentiable twins: plain sums, in double so that the oracle's gradients are better than what they judge.
  const auto angles = [&](const Tensor& addend) {
    const auto [running, last] = segmented_sums(addend, initial.angle);
    return std::pair(path.angle ? running + *path.angle : running, last);
  };
  const Tensor wide = delta.to(at::kDouble);
  const auto [gradient_path, gradient_last] =  // Eq. 9: grad_scale acts on the gradient of delta alone
      angles(grad_scale ? wide * gather(*grad_scale).view({B, T, 1, 1}) : wide);
  if (unconstrained || dtype == at::kDouble) {
    const auto [value, last] = angles(wide);
    return {Tensor(), with_gradient_of(value.detach().to(dtype), gradient_path), Tensor(),
            with_gradient_of(last.detach().to(dtype), gradient_last)};
  }

  // The exact values: 64-bit turns wrap by themselves.                       Eq. 6
  if (!at::GradMode::is_enabled() && !at::isTensorSubclassLike(delta))
    TORCH_CHECK(delta.isfinite().all().item<bool>(),
                "segmented_scan: an update of the memory is NaN or infinite; a weight of the model or its input is");
  const auto [running, last] = segmented_sums(to_turns(delta.detach()), initial.turns);
  Tensor turns = running.__rshift__(32).to(at::kInt);
  if (path.turns) turns = turns + *path.turns;
  return {turns, with_gradient_of(to_angle(turns, dtype), gradient_path), last,
          with_gradient_of(to_angle(last, dtype), gradient_last)};
}

struct SegmentedScan : KernelFunction<SegmentedScan> {
  static constexpr const char* kName = "segmented_scan";

  // The angles given only carry gradients; values come from the turns.
  static variable_list forward(AutogradContext* ctx, const Tensor& weights_in, const Tensor& update_in,
                               const Tensor& group_in, int64_t G, const OptTensor& path_turns,
                               const OptTensor& path_angle, const OptTensor& initial_turns,
                               const OptTensor& initial_angle, const OptTensor& grad_scale, bool with_angles) {
    const Tensor weights = weights_in.contiguous(), update = update_in.contiguous(), group = group_in.contiguous();
    const int64_t B = weights.size(0), T = weights.size(1), N = weights.size(2), M = update.size(2);
    const Tensor path_in = contiguous_or_undefined(path_turns);
    const Tensor path = at::empty({B, T, N, M}, group.options().dtype(at::kInt));
    const Tensor state =
        initial_turns ? initial_turns->clone(at::MemoryFormat::Contiguous) : at::zeros({B, G, N, M}, group.options());
    for_each_slab(B, M, T * N * kSlabChannels, [&](int64_t b, int64_t, int64_t begin, int64_t end) {
      kernels::segmented_scan({T, N, M, begin, end}, data_at(weights, b * T * N), data_at(update, b * T * M),
                              data_at<int64_t>(group, b * T), data_at<int32_t>(path_in, b * T * N * M),
                              mutable_data_at<int64_t>(state, b * G * N * M),
                              mutable_data_at<int32_t>(path, b * T * N * M));
    });
    ctx->save_for_backward({weights, update, group, contiguous_or_undefined(grad_scale)});
    ctx->saved_data["num_groups"] = G;
    ctx->saved_data["has_path"] = path_angle.has_value();
    ctx->saved_data["has_initial"] = initial_angle.has_value();
    ctx->mark_non_differentiable({path, state});
    const Tensor none = at::empty({0}, weights.options());
    return {path, with_angles ? to_angle(path, at::kFloat) : none, state,
            with_angles ? to_angle(state, at::kFloat) : none.clone()};
  }

  static variable_list gradients(AutogradContext* ctx, const variable_list& saved, variable_list grads) {
    const Tensor &weights = saved[0], &update = saved[1], &group = saved[2], &scale = saved[3];
    const int64_t B = weights.size(0), T = weights.size(1), N = weights.size(2), M = update.size(2);
    const int64_t G = ctx->saved_data["num_groups"].toInt(), slabs = num_slabs(M);
    const Tensor grad_path = grads[1].defined() ? grads[1].contiguous() : at::zeros({B, T, N, M}, weights.options());
    const Tensor grad_state = grads[3].defined() ? grads[3].to(at::kDouble).contiguous()
                                                 : at::zeros({B, G, N, M}, weights.options().dtype(at::kDouble));
    // The gradient of the weights is a sum over channels: one partial sum per slab, added in a fixed order.
    const Tensor grad_update = at::empty_like(update), grad_weights = at::empty({slabs, B, T, N}, weights.options());
    for_each_slab(B, M, T * N * kSlabChannels, [&](int64_t b, int64_t slab, int64_t begin, int64_t end) {
      kernels::segmented_scan_backward({T, N, M, begin, end}, data_at(weights, b * T * N), data_at(update, b * T * M),
                                       data_at<int64_t>(group, b * T), data_at(grad_path, b * T * N * M),
                                       data_at(scale, b * G), mutable_data_at<double>(grad_state, b * G * N * M),
                                       mutable_data_at(grad_update, b * T * M),
                                       mutable_data_at(grad_weights, (slab * B + b) * T * N));
    });
    // An absent input must get no gradient.
    const Tensor for_path = ctx->saved_data["has_path"].toBool() ? grad_path : Tensor();
    const Tensor for_initial = ctx->saved_data["has_initial"].toBool() ? grad_state.to(at::kFloat) : Tensor();
    return {grad_weights.sum(0), grad_update, {}, {}, {}, for_path, {}, for_initial, {}, {}};
  }
};

// Whether every product of a weight and an update can be converted to turns: both are at most 2^10 (and not NaN), so
// the products are below kernels::kMaxRadians. Reads N + M numbers per token, the scan N * M.
bool fit_turns(const Tensor& weights, const Tensor& update) {
  constexpr float kMaxFactor = 0x1p10f;
  const auto fits = [&](const Tensor& x) {
    const Tensor dense = x.contiguous();
    return kernels::all_within(dense.numel(), data_at(dense), kMaxFactor);
  };
  return fits(weights) && fits(update);
}

void check_arguments(const Tensor& weights, const Tensor& update, const Tensor& group, int64_t num_groups,
                     const Phases& path, const Phases& initial, const OptTensor& grad_scale) {
  TORCH_CHECK(weights.dim() == 3 && update.dim() == 3 && group.dim() == 2, "segmented_scan: weights ", weights.sizes(),
              ", update ", update.sizes(), ", group ", group.sizes(), "; expected [B,T,N], [B,T,M] and [B,T]");
  const std::vector<int64_t> tokens{weights.size(0), weights.size(1)};
  TORCH_CHECK(update.sizes().slice(0, 2) == tokens && group.sizes() == tokens, "segmented_scan: update ",
              update.sizes(), " and group ", group.sizes(), " do not start with ", tokens,
              ", the batch and time of weights");
  TORCH_CHECK(num_groups > 0, "segmented_scan: ", num_groups, " groups; expected at least one");
  const auto check_sizes = [&](const char* what, const Phases& phases, int64_t rows) {
    const std::vector<int64_t> sizes{tokens[0], rows, weights.size(2), update.size(2)};
    for (const OptTensor& x : {phases.turns, phases.angle})
      TORCH_CHECK(!x || x->sizes() == sizes, "segmented_scan: ", what, " has shape ", x->sizes(), "; expected ", sizes);
  };
  check_sizes("the path", path, tokens[1]);
  check_sizes("the initial state", initial, num_groups);
  const std::vector<int64_t> segments{tokens[0], num_groups};
  TORCH_CHECK(!grad_scale || grad_scale->sizes() == segments, "segmented_scan: grad_scale has shape ",
              grad_scale->sizes(), "; expected ", segments);
  check_indices("segmented_scan", "group", group, num_groups);
}

ScanTensors scan(const Tensor& weights, const Tensor& update, const Tensor& group, int64_t num_groups,
                 const Phases& path, const Phases& initial, const OptTensor& grad_scale, bool unconstrained) {
  check_arguments(weights, update, group, num_groups, path, initial, grad_scale);
  const bool fast = !unconstrained && use_kernels(weights, update, path.angle, initial.angle, grad_scale) &&
                    has_data(path.turns, at::kInt) && has_data(initial.turns, at::kLong) &&
                    has_data(group, at::kLong) && fit_turns(weights, update);
  if (!fast) return reference(weights, update, group, num_groups, path, initial, grad_scale, unconstrained);
  const auto out = SegmentedScan::apply(weights, update, group, num_groups, path.turns, path.angle, initial.turns,
                                        initial.angle, grad_scale, at::GradMode::is_enabled());
  return {out[0], out[1], out[2], out[3]};
}

}  // namespace

SegmentedScanResult segmented_scan(const Tensor& weights, const Tensor& update, const Tensor& group, int64_t num_groups,
                                   const Phases& path, const Phases& initial, const OptTensor& grad_scale,
                                   bool unconstrained) {
  const auto [turns, angle, last_turns, last_angle] =
      scan(weights, update, group, num_groups, path, initial, grad_scale, unconstrained);
  const bool exact = weights.scalar_type() == at::kFloat && !unconstrained;
  const bool angles = !exact || at::GradMode::is_enabled();
  const auto when = [](bool wanted, const Tensor& x) { return wanted && x.defined() ? OptTensor(x) : std::nullopt; };
  return {.path = {when(exact, turns), when(angles, angle)},
          .final_state = {when(exact, last_turns), when(angles, last_angle)}};
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def(
      "segmented_scan(Tensor weights, Tensor update, Tensor group, int num_groups, Tensor? path_turns, "
      "Tensor? path_angle, Tensor? initial_turns, Tensor? initial_angle, Tensor? grad_scale, bool unconstrained) "
      "-> (Tensor, Tensor, Tensor, Tensor)",
      [](const Tensor& weights, const Tensor& update, const Tensor& group, int64_t num_groups,
         const OptTensor& path_turns, const OptTensor& path_angle, const OptTensor& initial_turns,
         const OptTensor& initial_angle, const OptTensor& grad_scale, bool unconstrained) {
        return scan(weights, update, group, num_groups, {path_turns, path_angle}, {initial_turns, initial_angle},
                    grad_scale, unconstrained);
      });
}

}  // namespace pmnet::ops
