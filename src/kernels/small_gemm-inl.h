// C[m,n] (+)= A[m,k] B[k,n] for matrices too small for a library call (64 x 192 x 64 in attention). A is read element
// by element through two strides, so it may be transposed; rows of B and C are contiguous.
#if defined(PMNET_KERNELS_SMALL_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_SMALL_GEMM_INL_H_
#undef PMNET_KERNELS_SMALL_GEMM_INL_H_
#else
#define PMNET_KERNELS_SMALL_GEMM_INL_H_
#endif

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// A register tile: kRows rows of C by one or two vectors of columns. `last` loads and stores the last of them, which
// may be partial.
template <int kRows, class Io>
HWY_INLINE void GemmTile(Io last, bool two, int64_t k, const float* a, int64_t a_row, int64_t a_col, const float* b,
                         int64_t b_row, float* c, int64_t c_row, bool accumulate) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const WholeVector whole;
  FloatVec left[kRows], right[kRows];
  for (int i = 0; i < kRows; ++i) left[i] = right[i] = hn::Zero(d);
  if (two) {
    for (int64_t p = 0; p < k; ++p, b += b_row) {
      const auto b0 = whole.load(b), b1 = last.load(b + lanes);
      for (int i = 0; i < kRows; ++i) {
        const auto x = hn::Set(d, a[i * a_row + p * a_col]);
        left[i] = hn::MulAdd(x, b0, left[i]);
        right[i] = hn::MulAdd(x, b1, right[i]);
      }
    }
  } else {
    for (int64_t p = 0; p < k; ++p, b += b_row) {
      const auto b0 = last.load(b);
      for (int i = 0; i < kRows; ++i) left[i] = hn::MulAdd(hn::Set(d, a[i * a_row + p * a_col]), b0, left[i]);
    }
  }
  for (int i = 0; i < kRows; ++i, c += c_row) {
    if (two) {
      whole.store(accumulate ? hn::Add(whole.load(c), left[i]) : left[i], c);
      last.store(accumulate ? hn::Add(last.load(c + lanes), right[i]) : right[i], c + lanes);
    } else {
      last.store(accumulate ? hn::Add(last.load(c), left[i]) : left[i], c);
    }
  }
}

// kRows rows of C, all columns.
template <int kRows>
HWY_INLINE void GemmRows(int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_col, const float* b,
                         int64_t b_row, float* c, int64_t c_row, bool accumulate) {
  const Floats d;
  const int64_t lanes = hn::Lanes(d);
  int64_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes)
    GemmTile<kRows>(WholeVector{}, /*two=*/true, k, a, a_row, a_col, b + j, b_row, c + j, c_row, accumulate);
  if (j == n) return;
  const bool two = n - j > lanes;
  const int64_t tail = two ? n - j - lanes : n - j;
  if (tail == lanes)
    GemmTile<kRows>(WholeVector{}, two, k, a, a_row, a_col, b + j, b_row, c + j, c_row, accumulate);
  else
    GemmTile<kRows>(PartVector{hn::FirstN(d, tail)}, two, k, a, a_row, a_col, b + j, b_row, c + j, c_row, accumulate);
}

inline void small_gemm(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_col, const float* b,
                       int64_t b_row, float* c, int64_t c_row, bool accumulate) {
  int64_t i = 0;
  // Six rows by two vectors are 12 sums; with two vectors of B and one broadcast they fill the 16 registers of AVX2.
  for (; i + 6 <= m; i += 6) GemmRows<6>(n, k, a + i * a_row, a_row, a_col, b, b_row, c + i * c_row, c_row, accumulate);
  for (; i + 4 <= m; i += 4) GemmRows<4>(n, k, a + i * a_row, a_row, a_col, b, b_row, c + i * c_row, c_row, accumulate);
  for (; i < m; ++i) GemmRows<1>(n, k, a + i * a_row, a_row, a_col, b, b_row, c + i * c_row, c_row, accumulate);
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
