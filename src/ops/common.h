// What the CPU side of every op shares: when the fast path applies, how rows are spread over threads.
#pragma once
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include "ops/ops.h"

#ifndef INTRA_OP_PARALLEL
#error "at::parallel_for is serial in this file: compile it with -fopenmp"
#endif

namespace pmnet::ops {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

inline bool fast_path(const Tensor& x) {
  return current_implementation() == Implementation::kFast && x.scalar_type() == at::kFloat && x.device().is_cpu();
}

inline Tensor or_undefined(const OptTensor& x) { return x.value_or(Tensor()); }

template <typename T>
const T* data_or_null(const Tensor& x) {
  return x.defined() ? x.const_data_ptr<T>() : nullptr;
}

// Rows are cut into at most kRanges pieces, whatever the number of threads: partial sums kept per piece and added in
// order give the same bits on any number of threads.
constexpr int64_t kRanges = 16;

inline int64_t num_ranges(int64_t rows, int64_t rows_worth_a_task) {
  return std::clamp<int64_t>(rows / std::max<int64_t>(rows_worth_a_task, 1), 1, kRanges);
}

// body(piece, begin, end) for every piece.
template <typename Body>
void for_each_range(int64_t rows, int64_t pieces, const Body& body) {
  at::parallel_for(0, pieces, /*grain_size=*/1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) body(piece, rows * piece / pieces, rows * (piece + 1) / pieces);
  });
}

}  // namespace pmnet::ops
