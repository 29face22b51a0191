#include "kernels/rms_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rms_norm.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/rms_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

void RmsNorm(int64_t rows, int64_t width, const float* x, const float* weight, float eps, float* y,
             float* inverse_rms) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width)
    inverse_rms[row] = RmsNormRow(width, x, weight, eps, y);
}

void RmsNormBackward(int64_t rows, int64_t width, const float* x, const float* weight, const float* inverse_rms,
                     const float* grad_y, float* grad_x, float* grad_weight) {
  for (int64_t row = 0; row < rows; ++row, x += width, grad_y += width, grad_x += width)
    RmsNormRowBackward(width, x, weight, inverse_rms[row], grad_y, grad_x, grad_weight);
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(RmsNorm);
HWY_EXPORT(RmsNormBackward);

void rms_norm(int64_t rows, int64_t width, const float* x, const float* weight, float eps, float* y,
              float* inverse_rms) {
  HWY_DYNAMIC_DISPATCH(RmsNorm)(rows, width, x, weight, eps, y, inverse_rms);
}

void rms_norm_backward(int64_t rows, int64_t width, const float* x, const float* weight, const float* inverse_rms,
                       const float* grad_y, float* grad_x, float* grad_weight) {
  HWY_DYNAMIC_DISPATCH(RmsNormBackward)(rows, width, x, weight, inverse_rms, grad_y, grad_x, grad_weight);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
