#include "model/rope.h"

#include <ATen/ATen.h>

#include <cmath>

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

void rotary_row(int64_t position, int64_t width, double theta, float* cos, float* sin) {
  for (int64_t i = 0; i < width / 2; ++i) {
    const double angle = static_cast<double>(position) * std::pow(theta, -2.0 * i / static_cast<double>(width));
    cos[i] = static_cast<float>(std::cos(angle));
    sin[i] = static_cast<float>(std::sin(angle));
  }
}

}  // namespace pmnet
