#include "kernels/window_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/window_attention.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/contrib/math/math-inl.h>

#include "kernels/attention_block-inl.h"
#include "kernels/scratch.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

void ScaleRow(int64_t width, float scale, float* row) {
  for_each_vector(width, [&](size_t j, auto io)
                             HWY_ATTR { io.store(hn::Mul(io.load(row + j), hn::Set(Floats(), scale)), row + j); });
}

// Online softmax of a block of queries whose keys come part by part (as in FlashAttention): the sums so far are
// relative to the highest score so far, and are rescaled when a later part has a higher one.
struct RunningSoftmax {
  static constexpr float kNone = -std::numeric_limits<float>::infinity();  // the highest of no scores
  HWY_ALIGN float top[kQueries], total[kQueries];

  RunningSoftmax() {
    std::fill_n(top, kQueries, kNone);
    std::fill_n(total, kQueries, 0.0f);
  }

  // Turns the scores [key, query] of one part into exponentials, zero where dropout strikes, and adds them to `total`
  // (which dropout does not change). `out`, the weighted sum of values so far, is rescaled to the new top.
  void Add(const AttentionBlock& block, float* scores, float* out) {
    const Floats d;
    const auto scale = hn::Set(d, block.head.scale), none = hn::Set(d, kNone);
    HWY_ALIGN float before[kQueries];
    std::copy_n(top, kQueries, before);
    for_each_vector(block.num_queries, [&](size_t i, auto io) HWY_ATTR {
      auto highest = io.load(top + i);
      block.ForEachKey(
          i,
          [&](int64_t key, auto seen) HWY_ATTR {
            highest = hn::Max(highest, hn::IfThenElse(seen, io.load(scores + key * kQueries + i), none));
          },
          [](int64_t) {});
      io.store(highest, top + i);
    });
    for (int64_t i = 0; i < block.num_queries; ++i) {
      if (top[i] == before[i] || total[i] == 0) continue;  // the same top, or no sum yet
      const float rescale = std::exp((before[i] - top[i]) * block.head.scale);
      total[i] *= rescale;
      ScaleRow(block.head.width, rescale, out + i * block.head.query_stride);
    }
    for_each_vector(block.num_queries, [&](size_t i, auto io) HWY_ATTR {
      const Dropout dropout(block, i);
      const auto highest = io.load(top + i);
      auto sum = io.load(total + i);
      block.ForEachKey(
          i,
          [&](int64_t key, auto seen) HWY_ATTR {
            float* score = scores + key * kQueries + i;
            const auto e = hn::IfThenElseZero(seen, hn::Exp(d, hn::Mul(hn::Sub(io.load(score), highest), scale)));
            sum = hn::Add(sum, e);
            io.store(hn::Mul(e, dropout(key)), score);
          },
          [&](int64_t key) HWY_ATTR { io.store(hn::Zero(d), scores + key * kQueries + i); });
      io.store(sum, total + i);
    });
  }
};

// For each block of queries: scores, online softmax and weighted sum of values, one part of the keys after the other;
// then the division by the total.
void Attend(const AttentionHead& h, int64_t begin, int64_t end, const float* q, const float* k, const float* v,
            float* out, float* log_sums) {
  thread_local Scratch<float> queries, table;
  queries.resize(h.width * kQueries);
  table.resize(kKeys * kQueries);
  for (int64_t first = begin; first < end; first += kQueries) {
    AttentionBlock block(h, first, std::min(first + kQueries, end));
    RunningSoftmax softmax;
    float* rows = out + first * h.query_stride;
    block.Transpose(q, queries.data());
    for (bool begun = false; block.NextKeys(); begun = true) {
      block.Dots(k, queries.data(), table.data());
      softmax.Add(block, table.data(), rows);
      block.SumOverKeys(table.data(), v, out, begun);
    }
    for (int64_t i = 0; i < block.num_queries; ++i) {
      ScaleRow(h.width, 1 / softmax.total[i], rows + i * h.query_stride);
      log_sums[first + i] = softmax.top[i] * h.scale + std::log(softmax.total[i]);
    }
  }
}

// The probabilities p are recomputed from the saved log_sums. With g the gradient of p (dropout included) and mean =
// sum_k p g = out . grad_out, the gradient of a score is p (g - mean).
void AttendBackward(const AttentionHead& h, const float* q, const float* k, const float* v, const float* out,
                    const float* log_sums, const float* grad_out, float* grad_q, float* grad_k, float* grad_v) {
  const Floats d;
  const auto scale = hn::Set(d, h.scale);
  thread_local Scratch<float> queries, grads, probabilities, gradients;
  for (Scratch<float>* x : {&queries, &grads}) x->resize(h.width * kQueries);
  for (Scratch<float>* x : {&probabilities, &gradients}) x->resize(kKeys * kQueries);
  float *p = probabilities.data(), *g = gradients.data();
  for (int64_t first = 0; first < h.num_queries; first += kQueries) {
    AttentionBlock block(h, first, std::min(first + kQueries, h.num_queries));
    block.Transpose(q, queries.data());
    block.Transpose(grad_out, grads.data());
    HWY_ALIGN float means[kQueries];  // out . grad_out per query
    for (int64_t i = 0; i < block.num_queries; ++i) {
      const int64_t token = (first + i) * h.query_stride;
      auto dot = hn::Zero(d);
      for_each_vector(h.width, [&](size_t j, auto io) HWY_ATTR {
        dot = hn::MulAdd(io.load(out + token + j), io.load(grad_out + token + j), dot);
      });
      means[i] = sum_lanes(dot);
    }
    for (bool begun = false; block.NextKeys(); begun = true) {
      block.Dots(k, queries.data(), p);
      block.Dots(v, grads.data(), g);
      for_each_vector(block.num_queries, [&](size_t i, auto io) HWY_ATTR {
        const Dropout dropout(block, i);
        const auto log_sum = io.load(log_sums + first + i), mean = io.load(means + i);
        block.ForEachKey(
            i,
            [&](int64_t key, auto seen) HWY_ATTR {
              const int64_t at = key * kQueries + i;
              const auto e = hn::IfThenElseZero(seen, hn::Exp(d, hn::MulSub(io.load(p + at), scale, log_sum)));
              const auto kept = dropout(key);
              io.store(hn::Mul(e, kept), p + at);
              io.store(hn::Mul(hn::Mul(e, scale), hn::MulSub(io.load(g + at), kept, mean)), g + at);
            },
            [&](int64_t key) HWY_ATTR {
              io.store(hn::Zero(d), p + key * kQueries + i);
              io.store(hn::Zero(d), g + key * kQueries + i);
            });
      });
      block.SumOverKeys(g, k, grad_q, begun);
      block.SumOverQueries(g, q, grad_k);
      block.SumOverQueries(p, grad_out, grad_v);
    }
  }
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(Attend);
HWY_EXPORT(AttendBackward);

void attend(const AttentionHead& head, int64_t begin, int64_t end, const float* q, const float* k, const float* v,
            float* out, float* log_sums) {
  HWY_DYNAMIC_DISPATCH(Attend)(head, begin, end, q, k, v, out, log_sums);
}

void attend_backward(const AttentionHead& head, const float* q, const float* k, const float* v, const float* out,
                     const float* log_sums, const float* grad_out, float* grad_q, float* grad_k, float* grad_v) {
  HWY_DYNAMIC_DISPATCH(AttendBackward)
  (head, q, k, v, out, log_sums, grad_out, grad_q, grad_k, grad_v);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
