// What this machine can do at best, measured with the library that multiplies for us.
#pragma once
#include <cstdint>

#include "config/model_config.h"

namespace pmnet {

struct Product {
  int64_t rows, inner, cols;
  double times;  // per forward pass
};

// The matrix products of one forward pass over a batch.
std::vector<Product> products_of(const AnyConfig& config, int64_t batch, int64_t context);

double measure_cube_flops();
double measure_shape_flops(const std::vector<Product>& products);
// Reading a buffer of this size once, in as many streams per thread as memory answers fastest to.
double measure_read_rate(double bytes);

}  // namespace pmnet
