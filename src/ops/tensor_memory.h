// Memory for large tensors that is kept and used again. A training step makes and drops the same sizes over and over;
// given back to the system each time, their pages are cleared anew by the kernel, which took a tenth of a step.
#pragma once
#include <cstdint>

namespace pmnet::ops {

// From here on large tensors on the CPU come from blocks on huge pages that are used again for the same size. What is
// mapped, in use or waiting, stays within a few percent of the most that was ever in use at once. Tensors between 64 KB
// and a huge page share slabs of them. For a program to call once, before its first tensor.
void reuse_tensor_memory();

struct TensorMemory {
  int64_t in_use = 0, waiting = 0, most_in_use = 0;  // bytes in large blocks
};
TensorMemory tensor_memory();

}  // namespace pmnet::ops
