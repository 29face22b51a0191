// The matrix products of a pass.
#pragma once
#include <initializer_list>
#include <vector>

#include "engine/packed_weight.h"
#include "engine/worker_pool.h"

namespace pmnet {

// y [rows, outputs] = x [rows, inputs] W^T + b, with strides between the rows; for W and b the outputs from
// `first_output` on of a projection.
struct Product {
  const Projection* projection;
  int64_t first_output, outputs;
  bool add_bias;
  int64_t rows;
  const float* x;
  int64_t x_stride;
  float* y;
  int64_t y_stride;
};

// All outputs, rows without gaps.
Product product(const Projection& projection, int64_t rows, const float* x, float* y);
// The same without the bias, where a kernel adds that.
Product product_without_bias(const Projection& projection, int64_t rows, const float* x, float* y);

// Up to this many rows a GEMV kernel is fastest: it reads each weight once, in the format it is stored in. With more
// rows the weights are widened to float32 and ATen multiplies.
constexpr int64_t kMaxGemvRows = 32;

// Operands and the partition of the weights of each product, kept from call to call for their memory.
class GemvBatch {
 public:
  // Products that do not depend on each other.
  void run(const Workers& workers, std::initializer_list<Product> products) {
    run(workers, products.begin(), products.size());
  }
  void run(const Workers& workers, const std::vector<Product>& products) {
    run(workers, products.data(), products.size());
  }

 private:
  struct Task {
    const Product* product;
    kernels::WeightMatrix weight;
    size_t owner;  // of the operands: index of the task that holds them: products of one input share their quantized
                   // vectors
    kernels::Operands operands;
    kernels::RowPartition partition;
    int64_t first_range;
  };

  void run(const Workers& workers, const Product* products, size_t count);
  void add(const Workers& workers, const Product& product, size_t index);

  std::vector<Task> tasks_;
};

}  // namespace pmnet
