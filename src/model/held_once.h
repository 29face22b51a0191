#pragma once
#include <ATen/core/Tensor.h>

namespace pmnet {

// Whether a tensor may be changed in place without anybody else seeing it.
inline bool held_once(const at::Tensor& tensor) { return tensor.use_count() == 1 && tensor.storage().use_count() == 1; }

}  // namespace pmnet
