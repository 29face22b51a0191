// What the products of decoding have in common, compiled once per instruction set (Highway's per-target include).
#if defined(PMNET_KERNELS_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_PRODUCTS_INL_H_
#undef PMNET_KERNELS_PRODUCTS_INL_H_
#else
#define PMNET_KERNELS_PRODUCTS_INL_H_
#endif

#include <hwy/cache_control.h>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

constexpr int64_t kBytesAhead = 8192;  // far enough for memory to answer in time

// Which weights to ask memory for while multiplying with some: how many bytes behind the first of the current ones, and
// how many more every turn. Rows and panels are too short for the hardware to see a stream in them. Where several
// passes are made over the same weights, only the first would find them missing, and memory idle in the others: each
// pass then asks for its share of the next ones.
struct Ahead {
  int64_t begin, per_turn;

  // Of `turn_bytes` in turn number `turn`.
  HWY_INLINE void Prefetch(const void* first, int64_t turn, int64_t turn_bytes) const {
    const char* asked = static_cast<const char*>(first) + begin + turn * per_turn;
    for (int64_t i = 0; i < turn_bytes; i += 64) hwy::Prefetch(asked + i);
  }
};

HWY_INLINE Ahead SharedAhead(int64_t distance, int64_t bytes, int64_t turn_bytes, int64_t pass, int64_t passes) {
  return {distance + pass * bytes / passes, (turn_bytes + passes - 1) / passes};
}

// Where products go: y[v, row] with the row's bias, which may be null.
struct Results {
  const float* bias;
  float* y;
  int64_t y_stride;

  void Store(int64_t vector, int64_t row, float sum) const {
    y[vector * y_stride + row] = sum + (bias ? bias[row] : 0.0f);
  }
};

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
