#pragma once
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace pmnet {

// The largest absolute difference of two entries; infinite for other shapes and for NaN.
inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  if (a.numel() == 0) return 0;
  const double difference = (a.detach().to(at::kDouble) - b.detach().to(at::kDouble)).abs().max().item<double>();
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

// Relative to the largest entry of what is expected, as gradients are compared.
inline double relative_difference(const at::Tensor& got, const at::Tensor& expected) {
  if (expected.numel() == 0) return largest_difference(got, expected);
  return largest_difference(got, expected) / std::max(expected.abs().max().item<double>(), 1e-30);
}

}  // namespace pmnet
