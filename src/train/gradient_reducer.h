// Gradients of one rank -> their sums over all ranks, while the backward pass is still running.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "train/process_group.h"

namespace pmnet {

class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  // The backward pass that follows is the last of the step: what it leaves in .grad is final.
  virtual void expect_last_backward() {}
  // The gradient of parameter `index` is final. Called by autograd after expect_last_backward().
  virtual void add(size_t index) = 0;
  // Afterwards every .grad is the sum over the ranks, the same bits on each. Also ends a step that was broken off.
  virtual void finalize() {}
};

// One rank: nothing to do. Several: parameters go into buckets in reverse order, about the order in which their
// gradients become final; a bucket is summed as soon as it and those before it are complete, so that every rank sums
// in the same order.
std::unique_ptr<GradientReducer> make_gradient_reducer(std::vector<at::Tensor> parameters, ProcessGroup& group,
                                                       int64_t bucket_bytes = 8 << 20);

}  // namespace pmnet
