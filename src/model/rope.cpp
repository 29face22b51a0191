#include "model/rope.h"

#include <ATen/ATen.h>

namespace pmnet {

RotaryTable rotary_table(const at::Tensor& positions, int64_t num_tokens, int64_t width, double theta,
                         at::ScalarType dtype) {
  const auto options = positions.options().dtype(at::kDouble);
  const bool same = positions.numel() <= 1 || positions.eq(positions[0]).all().item<bool>();
  const at::Tensor first = (same ? positions.narrow(0, 0, 1) : positions).to(at::kDouble).unsqueeze(1);  // [B|1,1]
  const at::Tensor position = first + at::arange(num_tokens, options);                                   // [B|1,T]
  const at::Tensor frequency = at::pow(theta, at::arange(0, width, 2, options) * (-1.0 / width));        // [width/2]
  const at::Tensor angle = position.unsqueeze(-1) * frequency;
  return {angle.cos().to(dtype), angle.sin().to(dtype)};
}

}  // namespace pmnet
