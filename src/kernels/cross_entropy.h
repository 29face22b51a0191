// Cross-entropy of rows of logits with one target each, and its gradient.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

// loss[row] = -log softmax(logits[row])[targets[row]]. Overwrites logits [rows, vocab] with softmax - onehot(target),
// the gradient of the loss, so that logits are held once. A negative target marks padding: zero loss, zero gradient.
void cross_entropy(int64_t rows, int64_t vocab, float* logits, const int64_t* targets, float* loss);

}  // namespace pmnet::kernels
