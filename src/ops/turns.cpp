// Conversion between angles in radians and exact turns, in plain ATen.
#include <ATen/ATen.h>

#include <numbers>

#include "ops/ops.h"

namespace pmnet::ops {

using std::numbers::pi;

Tensor to_turns(const Tensor& radians) {
  constexpr double kTurn = 0x1p64;
  Tensor x = radians.to(at::kDouble) * (kTurn / (2 * pi));
  x = (x - kTurn * (x / kTurn).round()).round();
  return at::where(x >= 0x1p63, x - kTurn, x).to(at::kLong);
}

Tensor to_angle(const Tensor& turns, at::ScalarType dtype) {
  const double full_turn = turns.scalar_type() == at::kInt ? 0x1p32 : 0x1p64;
  return (turns.to(at::kDouble) * (2 * pi / full_turn)).to(dtype);
}

}  // namespace pmnet::ops
