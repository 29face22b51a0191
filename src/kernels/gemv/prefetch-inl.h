// Software prefetch and output of the GEMV kernels, compiled once per instruction set (Highway's per-target include).
#if defined(PMNET_KERNELS_GEMV_PREFETCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_GEMV_PREFETCH_INL_H_
#undef PMNET_KERNELS_GEMV_PREFETCH_INL_H_
#else
#define PMNET_KERNELS_GEMV_PREFETCH_INL_H_
#endif

#include <hwy/cache_control.h>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

constexpr int64_t kPrefetchBytes = 8192;  // default distance; covers the latency of DRAM

// Prefetches weights while earlier ones are multiplied: rows and panels (1 to 32 KB) end before the hardware prefetcher
// locks on. In step s of a row or panel it asks for the bytes at first + begin + s per_step.
struct Prefetcher {
  int64_t begin, per_step;  // bytes

  HWY_INLINE void Prefetch(const void* first, int64_t step, int64_t step_bytes) const {
    const char* address = static_cast<const char*>(first) + begin + step * per_step;
    for (int64_t i = 0; i < step_bytes; i += 64) hwy::Prefetch(address + i);
  }
};

// Several passes over the same weights: only the first would miss the cache, and DRAM would idle during the others. So
// each pass prefetches its share of the `bytes` that lie `distance` further on.
HWY_INLINE Prefetcher SplitPrefetch(int64_t distance, int64_t bytes, int64_t step_bytes, int64_t pass, int64_t passes) {
  return {distance + pass * bytes / passes, (step_bytes + passes - 1) / passes};
}

// Destination of the products: y[operand, row] plus the bias of the row (null: none).
struct Output {
  const float* bias;
  float* y;
  int64_t y_stride;

  void Store(int64_t operand, int64_t row, float sum) const {
    y[operand * y_stride + row] = sum + (bias ? bias[row] : 0.0f);
  }
  Output From(int64_t operand) const { return {bias, y + operand * y_stride, y_stride}; }
};

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
