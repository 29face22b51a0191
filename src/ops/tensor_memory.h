// A caching allocator for large CPU tensors. A training step allocates and frees the same sizes over and over; returned
// to the system each time, their pages would be zeroed again by the operating system, which took a tenth of a step.
#pragma once
#include <cstdint>

namespace pmnet::ops {

// From here on large tensors on the CPU come from blocks on huge pages that are reused for requests of the same size.
// The memory mapped, in use or waiting for reuse, stays within a few percent of the most that was ever in use at once.
// Tensors between 64 KB and a huge page share slabs. Call once, before the first tensor.
void reuse_tensor_memory();

struct TensorMemory {
  int64_t in_use = 0, waiting = 0, most_in_use = 0;  // bytes in large blocks, slabs included
};
TensorMemory tensor_memory();

}  // namespace pmnet::ops
