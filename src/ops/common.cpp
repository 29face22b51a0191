#include "ops/common.h"

#include <torch/csrc/autograd/functions/basic_ops.h>

namespace pmnet::ops {

namespace {
thread_local Implementation implementation_of_thread = Implementation::kFast;
}

Implementation current_implementation() { return implementation_of_thread; }

ImplementationGuard::ImplementationGuard(Implementation implementation) : previous_(implementation_of_thread) {
  implementation_of_thread = implementation;
}
ImplementationGuard::~ImplementationGuard() { implementation_of_thread = previous_; }

void check_indices(const char* op, const char* name, const Tensor& indices, int64_t limit) {
  TORCH_CHECK(indices.scalar_type() == at::kLong, op, ": ", name, " has type ", indices.scalar_type(),
              "; expected int64");
  if (indices.numel() == 0 || at::isTensorSubclassLike(indices)) return;  // nothing to read
  const int64_t largest = indices.max().item<int64_t>();
  TORCH_CHECK(largest < limit, op, ": ", name, " holds the index ", largest, "; expected indices below ", limit);
}

variable_list forbid_second_derivative(const char* op, variable_list gradients) {
  for (Tensor& gradient : gradients)
    if (gradient.defined()) gradient = gradient.detach().requires_grad_();
  const std::string message =
      c10::str(op, ": second derivatives are not implemented; use the reference implementation");
  torch::autograd::DelayedError error(message, static_cast<int64_t>(gradients.size()));
  return error(std::move(gradients));
}

}  // namespace pmnet::ops
