// What this machine can do at best, measured with the library that multiplies for us.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "config/model_config.h"
#include "kernels/read_memory.h"

namespace pmnet {

struct Product {
  int64_t rows, inner, cols;
  double times;  // per forward pass
};

// The matrix products of one forward pass over a batch.
std::vector<Product> products_of(const ModelConfig& config, int64_t batch, int64_t context);

double measure_cube_flops();
double measure_shape_flops(const std::vector<Product>& products);
// Reads a buffer of some size again and again, in one to four streams per thread: memory does not answer to all numbers
// of streams alike.
class ReadRate {
 public:
  explicit ReadRate(double bytes);
  // Reads it once; the number of streams changes from turn to turn.
  void take_turn();
  // Bytes per second in the number of streams that was fastest in the median.
  double best() const;

 private:
  at::Tensor buffer_;
  std::array<std::vector<double>, kernels::kMaxReadStreams> seconds_;
  size_t turns_ = 0;
};

}  // namespace pmnet
