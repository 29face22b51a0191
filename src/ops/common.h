// What every op shares: when the kernels apply, how rows are divided among threads, and the base of the hand-written
// backward passes.
#pragma once
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include "ops/ops.h"

#ifndef INTRA_OP_PARALLEL
#error "at::parallel_for is serial in this file: compile it with -fopenmp"
#endif

namespace pmnet::ops {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A dense tensor of this type in the memory of the CPU. Meta tensors, and tensors that only record what happens to them
// (torch.compile, functorch), have no values to read.
inline bool has_data(const Tensor& x, at::ScalarType type) {
  return x.scalar_type() == type && x.device().is_cpu() && !at::isTensorSubclassLike(x);
}
inline bool has_data(const OptTensor& x, at::ScalarType type) { return !x || has_data(*x, type); }

// Whether the kernels apply: all floating-point inputs of an op are float32 on the CPU, and the caller did not choose
// the reference.
template <typename... T>
bool use_kernels(const T&... inputs) {
  return current_implementation() == Implementation::kFast && (has_data(inputs, at::kFloat) && ...);
}

// Whether autograd will ask for gradients of any of these: only then is it worth keeping intermediate results.
template <typename... T>
bool needs_gradient(const T&... inputs) {
  const auto wants = [](const OptTensor& x) { return x && x->requires_grad(); };
  return at::GradMode::is_enabled() && (wants(inputs) || ...);
}

// Indices are int64 and below `limit`; a negative one marks padding. Kernels read through them without another check.
void check_indices(const char* op, const char* name, const Tensor& indices, int64_t limit);

inline Tensor or_undefined(const OptTensor& x) { return x.value_or(Tensor()); }
inline Tensor contiguous_or_undefined(const OptTensor& x) { return x ? x->contiguous() : Tensor(); }

// A pointer `offset` elements into a contiguous tensor; null if the tensor is undefined.
template <typename T = float>
const T* data_at(const Tensor& x, int64_t offset = 0) {
  return x.defined() ? x.const_data_ptr<T>() + offset : nullptr;
}
template <typename T = float>
T* mutable_data_at(const Tensor& x, int64_t offset = 0) {
  return x.mutable_data_ptr<T>() + offset;
}

// Gradients that raise an error when they are differentiated again.
variable_list forbid_second_derivative(const char* op, variable_list gradients);

// An op whose backward pass is written by hand. Op has kName, forward(ctx, ...) and gradients(ctx, saved,
// grads). Kernels
// build no graph of the backward pass; without the error, second derivatives would be silently wrong. The operations
// inside go straight to the CPU: passing autograd's layers, only to find that nothing is to be recorded, costs as much
// as the work itself when the model is small.
template <class Op>
struct KernelFunction : torch::autograd::Function<KernelFunction<Op>> {
  template <typename... Args>
  static auto forward(AutogradContext* ctx, Args&&... args) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return Op::forward(ctx, std::forward<Args>(args)...);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const bool create_graph = at::GradMode::is_enabled();
    const at::NoGradGuard no_graph;
    const variable_list saved = ctx->get_saved_variables();  // may recompute a checkpointed pass, which needs autograd
    variable_list gradients;
    {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      gradients = Op::gradients(ctx, saved, std::move(grads));
    }
    return create_graph ? forbid_second_derivative(Op::kName, std::move(gradients)) : gradients;
  }
};

// Rows are divided into at most kRanges ranges, independently of the number of threads: partial sums kept per range and
// added in order give the same bits on any number of threads.
constexpr int64_t kRanges = 16;

inline int64_t num_ranges(int64_t rows, int64_t min_rows_per_range) {
  return std::clamp<int64_t>(rows / std::max<int64_t>(min_rows_per_range, 1), 1, kRanges);
}

// body(range, begin, end) for every range of rows.
template <typename Body>
void for_each_range(int64_t rows, int64_t ranges, const Body& body) {
  at::parallel_for(0, ranges, /*grain_size=*/1, [&](int64_t first, int64_t last) {
    for (int64_t range = first; range < last; ++range) body(range, rows * range / ranges, rows * (range + 1) / ranges);
  });
}

}  // namespace pmnet::ops
