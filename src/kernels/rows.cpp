#include "kernels/rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/activations-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

HWY_INLINE float InverseRms(int64_t width, const float* x, float eps) {
  auto squares = hn::Zero(Floats());
  for_each_vector(width, [&](size_t j, auto io) HWY_ATTR {
    const auto v = io.load(x + j);
    squares = hn::MulAdd(v, v, squares);
  });
  return 1.0f / std::sqrt(sum_lanes(squares) / width + eps);
}

void RmsNorm(int64_t rows, int64_t width, const float* x, const float* weight, float eps, float* y,
             float* inverse_rms) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    inverse_rms[row] = InverseRms(width, x, eps);
    const auto r = hn::Set(Floats(), inverse_rms[row]);
    for_each_vector(width, [&](size_t j, auto io)
                               HWY_ATTR { io.store(hn::Mul(io.load(weight + j), hn::Mul(io.load(x + j), r)), y + j); });
  }
}

// One row: grad_x = r (w g - x r^2 mean(w g x)), grad_weight += g x r.
HWY_INLINE void RmsNormRowBackward(int64_t width, const float* x, const float* weight, float inverse_rms,
                                   const float* grad_y, float* grad_x, float* grad_weight) {
  const Floats d;
  auto dot = hn::Zero(d);
  for_each_vector(width, [&](size_t j, auto io) HWY_ATTR {
    dot = hn::MulAdd(hn::Mul(io.load(weight + j), io.load(grad_y + j)), io.load(x + j), dot);
  });
  const auto r = hn::Set(d, inverse_rms);
  const auto pull = hn::Set(d, sum_lanes(dot) / width * inverse_rms * inverse_rms);
  for_each_vector(width, [&](size_t j, auto io) HWY_ATTR {
    const auto v = io.load(x + j), g = io.load(grad_y + j);
    io.store(hn::MulAdd(hn::Mul(g, v), r, io.load(grad_weight + j)), grad_weight + j);
    io.store(hn::Mul(r, hn::NegMulAdd(v, pull, hn::Mul(io.load(weight + j), g))), grad_x + j);
  });
}

void RmsNormBackward(int64_t rows, int64_t width, const float* x, const float* weight, const float* inverse_rms,
                     const float* grad_y, float* grad_x, float* grad_weight) {
  for (int64_t row = 0; row < rows; ++row, x += width, grad_y += width, grad_x += width)
    RmsNormRowBackward(width, x, weight, inverse_rms[row], grad_y, grad_x, grad_weight);
}

// (left, right) -> (left c - right s, right c + left s); with `back` the transposed rotation.
HWY_INLINE void RotateRow(int64_t half, const float* in, const float* cos, const float* sin, bool back, float* out) {
  const auto sign = hn::Set(Floats(), back ? -1.0f : 1.0f);
  for_each_vector(half, [&](size_t j, auto io) HWY_ATTR {
    const auto left = io.load(in + j), right = io.load(in + half + j);
    const auto c = io.load(cos + j), s = hn::Mul(sign, io.load(sin + j));
    io.store(hn::MulSub(left, c, hn::Mul(right, s)), out + j);
    io.store(hn::MulAdd(right, c, hn::Mul(left, s)), out + half + j);
  });
}

void NormRotate(const RotateShape& shape, const float* x, const float* weight, const float* cos, const float* sin,
                float eps, float* y, float* inverse_rms) {
  const int64_t half = shape.width / 2;
  std::vector<float> normed(shape.width);
  for (int64_t t = 0; t < shape.tokens; ++t, cos += half, sin += half) {
    for (int64_t h = 0; h < shape.heads; ++h, x += shape.width, y += shape.width) {
      if (weight) RmsNorm(1, shape.width, x, weight, eps, normed.data(), inverse_rms++);
      RotateRow(half, weight ? normed.data() : x, cos, sin, /*back=*/false, y);
    }
  }
}

void NormRotateBackward(const RotateShape& shape, const float* x, const float* y, const float* weight, const float* cos,
                        const float* sin, const float* inverse_rms, const float* grad_y, float* grad_x,
                        float* grad_weight) {
  const int64_t half = shape.width / 2;
  std::vector<float> unrotated(shape.width), found(shape.width);
  for (int64_t t = 0; t < shape.tokens; ++t, cos += half, sin += half) {
    for (int64_t h = 0; h < shape.heads; ++h, grad_y += shape.width, grad_x += shape.width) {
      RotateRow(half, grad_y, cos, sin, /*back=*/true, weight ? unrotated.data() : grad_x);
      if (!weight) continue;
      if (!x) {
        RotateRow(half, y, cos, sin, /*back=*/true, found.data());
        const auto rms = hn::Set(Floats(), 1 / *inverse_rms);
        for_each_vector(shape.width, [&](size_t j, auto io) HWY_ATTR {
          io.store(hn::Div(hn::Mul(io.load(found.data() + j), rms), io.load(weight + j)), found.data() + j);
        });
      }
      RmsNormRowBackward(shape.width, x ? x : found.data(), weight, *inverse_rms++, unrotated.data(), grad_x,
                         grad_weight);
      x ? x += shape.width : y += shape.width;
    }
  }
}

void SwiGlu(int64_t count, const float* gate, const float* up, float* y) {
  for_each_vector(count, [&](size_t i, auto io) HWY_ATTR {
    io.store(hn::Mul(silu_and_slope(io.load(gate + i)).value, io.load(up + i)), y + i);
  });
}

void SwiGluBackward(int64_t count, const float* gate, const float* up, const float* grad_y, float* grad_gate,
                    float* grad_up) {
  for_each_vector(count, [&](size_t i, auto io) HWY_ATTR {
    const auto dy = io.load(grad_y + i);
    const Silu g = silu_and_slope(io.load(gate + i));
    io.store(hn::Mul(hn::Mul(dy, io.load(up + i)), g.slope), grad_gate + i);
    io.store(hn::Mul(dy, g.value), grad_up + i);
  });
}

void ByteLossRows(int64_t rows, int64_t vocab, float* logits, const int64_t* targets, float* loss) {
  const Floats d;
  for (int64_t row = 0; row < rows; ++row, logits += vocab) {
    if (targets[row] < 0) {
      std::fill(logits, logits + vocab, 0.0f);
      loss[row] = 0;
      continue;
    }
    const float top = *std::max_element(logits, logits + vocab), target_logit = logits[targets[row]];
    auto total = hn::Zero(d);
    for_each_vector(vocab, [&](size_t i, auto io) HWY_ATTR {
      const auto e = io.only_active(hn::Exp(d, hn::Sub(io.load(logits + i), hn::Set(d, top))));
      io.store(e, logits + i);
      total = hn::Add(total, e);
    });
    const float sum = sum_lanes(total);
    const auto inverse = hn::Set(d, 1.0f / sum);
    for_each_vector(vocab,
                    [&](size_t i, auto io) HWY_ATTR { io.store(hn::Mul(io.load(logits + i), inverse), logits + i); });
    logits[targets[row]] -= 1.0f;
    loss[row] = std::log(sum) + top - target_logit;
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(RmsNorm);
HWY_EXPORT(RmsNormBackward);
HWY_EXPORT(NormRotate);
HWY_EXPORT(NormRotateBackward);
HWY_EXPORT(SwiGlu);
HWY_EXPORT(SwiGluBackward);
HWY_EXPORT(ByteLossRows);

void rms_norm(int64_t rows, int64_t width, const float* x, const float* weight, float eps, float* y,
              float* inverse_rms) {
  HWY_DYNAMIC_DISPATCH(RmsNorm)(rows, width, x, weight, eps, y, inverse_rms);
}

void rms_norm_backward(int64_t rows, int64_t width, const float* x, const float* weight, const float* inverse_rms,
                       const float* grad_y, float* grad_x, float* grad_weight) {
  HWY_DYNAMIC_DISPATCH(RmsNormBackward)(rows, width, x, weight, inverse_rms, grad_y, grad_x, grad_weight);
}

void norm_rotate(const RotateShape& shape, const float* x, const float* weight, const float* cos, const float* sin,
                 float eps, float* y, float* inverse_rms) {
  HWY_DYNAMIC_DISPATCH(NormRotate)(shape, x, weight, cos, sin, eps, y, inverse_rms);
}

void norm_rotate_backward(const RotateShape& shape, const float* x, const float* y, const float* weight,
                          const float* cos, const float* sin, const float* inverse_rms, const float* grad_y,
                          float* grad_x, float* grad_weight) {
  HWY_DYNAMIC_DISPATCH(NormRotateBackward)
  (shape, x, y, weight, cos, sin, inverse_rms, grad_y, grad_x, grad_weight);
}

void swiglu(int64_t count, const float* gate, const float* up, float* y) {
  HWY_DYNAMIC_DISPATCH(SwiGlu)(count, gate, up, y);
}

void swiglu_backward(int64_t count, const float* gate, const float* up, const float* grad_y, float* grad_gate,
                     float* grad_up) {
  HWY_DYNAMIC_DISPATCH(SwiGluBackward)(count, gate, up, grad_y, grad_gate, grad_up);
}

void byte_loss_rows(int64_t rows, int64_t vocab, float* logits, const int64_t* targets, float* loss) {
  HWY_DYNAMIC_DISPATCH(ByteLossRows)(rows, vocab, logits, targets, loss);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
