// Phases for tests: the same angle as exact turns with a differentiable twin (float) or as the angle alone (double).
#pragma once
#include "compare.h"
#include "ops/ops.h"

namespace pmnet::ops {

inline Phases phases_of(const Tensor& angle, at::ScalarType turns) {
  if (angle.scalar_type() == at::kDouble) return {.turns = std::nullopt, .angle = angle};
  const Tensor exact = to_turns(angle.detach());
  return {.turns = turns == at::kInt ? exact.__rshift__(32).to(at::kInt) : exact, .angle = angle};
}

// What the network sees of a phase: equal for equal angles whatever the turns between them.
inline Tensor on_circle(const Phases& phases) { return at::cat({phases.angle->sin(), phases.angle->cos()}, -1); }

}  // namespace pmnet::ops
