#include "kernels/cross_entropy.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

void CrossEntropy(int64_t rows, int64_t vocab, float* logits, const int64_t* targets, float* loss) {
  for (int64_t row = 0; row < rows; ++row, logits += vocab) {
    if (targets[row] < 0) {
      std::fill(logits, logits + vocab, 0.0f);
      loss[row] = 0;
      continue;
    }
    const float target_logit = logits[targets[row]];
    loss[row] = softmax_row(vocab, 1.0f, logits) - target_logit;
    logits[targets[row]] -= 1.0f;
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(CrossEntropy);

void cross_entropy(int64_t rows, int64_t vocab, float* logits, const int64_t* targets, float* loss) {
  HWY_DYNAMIC_DISPATCH(CrossEntropy)(rows, vocab, logits, targets, loss);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
