#pragma once
#include <ATen/Parallel.h>

#include "compare.h"

namespace pmnet::ops {

// The fast implementation gives the same bits on 1, 2 and 4 threads, in values and in gradients.
inline void expect_same_bits_on_any_threads(const TensorFunction& function, const std::vector<Tensor>& inputs) {
  const int before = at::get_num_threads();
  const auto run_on = [&](int threads) {
    at::set_num_threads(threads);
    return values_and_gradients(function, inputs, at::kFloat, Implementation::kFast, Layout::kContiguous);
  };
  const std::vector<Tensor> one = run_on(1);
  for (const int threads : {2, 4}) {
    const std::vector<Tensor> more = run_on(threads);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(more[i])) << threads << " threads, tensor " << i;
  }
  at::set_num_threads(before);
}

}  // namespace pmnet::ops
