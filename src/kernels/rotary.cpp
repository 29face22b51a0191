#include "kernels/rotary.h"

#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotary.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/rms_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// (left, right) -> (left c - right s, right c + left s). `inverse` rotates by the negative angle; a rotation is
// orthogonal, so that is also its transpose, which the backward pass needs.
HWY_INLINE void RotateRow(int64_t half, const float* in, const float* cos, const float* sin, bool inverse, float* out) {
  const auto sign = hn::Set(Floats(), inverse ? -1.0f : 1.0f);
  for_each_vector(half, [&](size_t j, auto io) HWY_ATTR {
    const auto left = io.load(in + j), right = io.load(in + half + j);
    const auto c = io.load(cos + j), s = hn::Mul(sign, io.load(sin + j));
    io.store(hn::MulSub(left, c, hn::Mul(right, s)), out + j);
    io.store(hn::MulAdd(right, c, hn::Mul(left, s)), out + half + j);
  });
}

void Rotary(const RotaryShape& shape, const float* x, const float* weight, const float* cos, const float* sin,
            float eps, float* y, float* inverse_rms) {
  const int64_t half = shape.width / 2;
  std::vector<float> normed(shape.width);
  for (int64_t t = 0; t < shape.tokens; ++t, cos += half, sin += half) {
    for (int64_t h = 0; h < shape.heads; ++h, x += shape.width, y += shape.width) {
      if (weight) *inverse_rms++ = RmsNormRow(shape.width, x, weight, eps, normed.data());
      RotateRow(half, weight ? normed.data() : x, cos, sin, /*inverse=*/false, y);
    }
  }
}

// x = (inverse rotation of y) / (r weight).
HWY_INLINE void RecomputeInput(int64_t width, const float* y, const float* weight, const float* cos, const float* sin,
                               float inverse_rms, float* x) {
  RotateRow(width / 2, y, cos, sin, /*inverse=*/true, x);
  const auto rms = hn::Set(Floats(), 1 / inverse_rms);
  for_each_vector(width, [&](size_t j, auto io)
                             HWY_ATTR { io.store(hn::Div(hn::Mul(io.load(x + j), rms), io.load(weight + j)), x + j); });
}

void RotaryBackward(const RotaryShape& shape, const float* x, const float* y, const float* weight, const float* cos,
                    const float* sin, const float* inverse_rms, const float* grad_y, float* grad_x,
                    float* grad_weight) {
  const int64_t half = shape.width / 2;
  std::vector<float> grad_normed(shape.width), recomputed(shape.width);
  for (int64_t t = 0; t < shape.tokens; ++t, cos += half, sin += half) {
    for (int64_t h = 0; h < shape.heads; ++h, grad_y += shape.width, grad_x += shape.width) {
      RotateRow(half, grad_y, cos, sin, /*inverse=*/true, weight ? grad_normed.data() : grad_x);
      if (!weight) continue;
      if (!x) RecomputeInput(shape.width, y, weight, cos, sin, *inverse_rms, recomputed.data());
      RmsNormRowBackward(shape.width, x ? x : recomputed.data(), weight, *inverse_rms++, grad_normed.data(), grad_x,
                         grad_weight);
      x ? x += shape.width : y += shape.width;
    }
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(Rotary);
HWY_EXPORT(RotaryBackward);

void rotary(const RotaryShape& shape, const float* x, const float* weight, const float* cos, const float* sin,
            float eps, float* y, float* inverse_rms) {
  HWY_DYNAMIC_DISPATCH(Rotary)(shape, x, weight, cos, sin, eps, y, inverse_rms);
}

void rotary_backward(const RotaryShape& shape, const float* x, const float* y, const float* weight, const float* cos,
                     const float* sin, const float* inverse_rms, const float* grad_y, float* grad_x,
                     float* grad_weight) {
  HWY_DYNAMIC_DISPATCH(RotaryBackward)
  (shape, x, y, weight, cos, sin, inverse_rms, grad_y, grad_x, grad_weight);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
