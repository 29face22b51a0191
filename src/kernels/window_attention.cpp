#include "kernels/window_attention.h"

#include <algorithm>
#include <vector>

#include "kernels/dropout_bits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/window_attention.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/contrib/math/math-inl.h>

#include "kernels/simd-inl.h"
#include "kernels/small_gemm-inl.h"
#include "kernels/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

constexpr int64_t kQueryBlock = 64;

// The keys a block of queries can see: [first, last).
struct KeyRange {
  int64_t first, last;
  int64_t size() const { return last - first; }
};

KeyRange VisibleKeys(const AttentionHead& h, int64_t first_query, int64_t last_query) {
  const int64_t offset = h.num_keys - h.num_queries;
  const int64_t oldest = h.window > 0 ? offset + first_query - h.window + 1 : 0;
  return {std::max({int64_t{0}, h.first_key, oldest}), offset + last_query + 1};
}

// Scratch for one block: probabilities [queries, keys] and, for the backward, their gradients.
struct Block {
  int64_t first_query, num_queries;
  KeyRange keys;
  int64_t stride;
  std::vector<float> probabilities, gradients, packed;

  void prepare(const AttentionHead& h, int64_t begin, int64_t end) {
    first_query = begin;
    num_queries = end - begin;
    keys = VisibleKeys(h, begin, end - 1);
    stride = keys.size() + (-keys.size() & 15);
    probabilities.resize(num_queries * stride);
    packed.resize(h.width * stride);
  }
};

// to[d, key] = from[key, d] for the block's keys, so that products run over keys.
void PackTransposed(const AttentionHead& h, const Block& block, const float* from, float* to) {
  for (int64_t j = 0; j < block.keys.size(); ++j) {
    const float* row = from + (block.keys.first + j) * h.key_stride;
    for (int64_t d = 0; d < h.width; ++d) to[d * block.stride + j] = row[d];
  }
}

// out[query, key] = x[query] . y[key] for the block.
void BlockDots(const AttentionHead& h, Block& block, const float* x, const float* y, float* out) {
  x += block.first_query * h.query_stride;
  if (block.num_queries < 4) {  // decoding: packing would cost more than the dots
    for (int64_t i = 0; i < block.num_queries; ++i) {
      for (int64_t j = 0; j < block.keys.size(); ++j) {
        const float* row = y + (block.keys.first + j) * h.key_stride;
        auto total = hn::Zero(Floats());
        for_each_vector(h.width, [&](size_t d, auto io) HWY_ATTR {
          total = hn::MulAdd(io.load(x + i * h.query_stride + d), io.load(row + d), total);
        });
        out[i * block.stride + j] = sum_lanes(total);
      }
    }
    return;
  }
  PackTransposed(h, block, y, block.packed.data());
  small_gemm(block.num_queries, block.keys.size(), h.width, x, h.query_stride, 1, block.packed.data(), block.stride,
             out, block.stride, /*accumulate=*/false);
}

// The part of a block's row that query i sees.
KeyRange RowRange(const AttentionHead& h, const Block& block, int64_t i) {
  const KeyRange seen = VisibleKeys(h, block.first_query + i, block.first_query + i);
  return {seen.first - block.keys.first, seen.last - block.keys.first};
}

// Multiplies the surviving entries by keep_scale and zeroes the others.
void DropRow(const AttentionHead& h, const Block& block, int64_t i, const KeyRange& range, float* row) {
  if (h.drop_threshold == 0) return;
  const uint64_t query_position = h.first_position + block.first_query + i;
  const uint64_t key = query_key(h.row_key, h.head, query_position);
  // Position of the block's first key: the query itself is the last key of its range.
  const uint32_t origin = static_cast<uint32_t>(query_position - (range.last - 1));
  const uint32_t low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
  const hn::RebindToUnsigned<Floats> u;
  for_each_vector(range.size(), [&](size_t j, auto io) HWY_ATTR {
    const auto position = hn::Iota(u, static_cast<uint32_t>(origin + range.first + j));
    auto x = hn::Add(hn::Mul(position, hn::Set(u, 0x9E3779B1u)), hn::Set(u, low));
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(u, 0x21F0AAADu));
    x = hn::Mul(hn::Xor(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(u, high)), hn::Set(u, 0x735A2D97u));
    x = hn::Xor(x, hn::ShiftRight<15>(x));
    const auto drops = hn::Lt(x, hn::Set(u, h.drop_threshold));
    float* p = row + range.first + j;
    const auto scaled = hn::Mul(io.load(p), hn::Set(Floats(), h.keep_scale));
    io.store(hn::IfThenZeroElse(hn::RebindMask(Floats(), drops), scaled), p);
  });
}

void ZeroOutside(const KeyRange& range, int64_t stride, float* row) {
  std::fill(row, row + range.first, 0.0f);
  std::fill(row + range.last, row + stride, 0.0f);
}

void Attend(const AttentionHead& h, int64_t begin, int64_t end, const float* q, const float* k, const float* v,
            float* out, float* log_sums) {
  Block block;
  for (int64_t first = begin; first < end; first += kQueryBlock) {
    block.prepare(h, first, std::min(first + kQueryBlock, end));
    float* p = block.probabilities.data();
    BlockDots(h, block, q, k, p);
    for (int64_t i = 0; i < block.num_queries; ++i) {
      float* row = p + i * block.stride;
      const KeyRange range = RowRange(h, block, i);
      log_sums[first + i] = softmax(range.size(), h.scale, row + range.first);
      DropRow(h, block, i, range, row);
      ZeroOutside(range, block.stride, row);
    }
    small_gemm(block.num_queries, h.width, block.keys.size(), p, block.stride, 1, v + block.keys.first * h.key_stride,
               h.key_stride, out + first * h.query_stride, h.query_stride, /*accumulate=*/false);
  }
}

void AttendBackward(const AttentionHead& h, const float* q, const float* k, const float* v, const float* out,
                    const float* log_sums, const float* grad_out, float* grad_q, float* grad_k, float* grad_v) {
  const Floats d;
  Block block;
  std::vector<float> dropped;
  for (int64_t first = 0; first < h.num_queries; first += kQueryBlock) {
    block.prepare(h, first, std::min(first + kQueryBlock, h.num_queries));
    block.gradients.resize(block.probabilities.size());
    float *p = block.probabilities.data(), *g = block.gradients.data();
    BlockDots(h, block, q, k, p);         // scores
    BlockDots(h, block, grad_out, v, g);  // gradients of the dropped probabilities
    dropped.assign(block.stride * block.num_queries, 0.0f);
    for (int64_t i = 0; i < block.num_queries; ++i) {
      const int64_t token = (first + i) * h.query_stride;
      const KeyRange range = RowRange(h, block, i);
      float *row = p + i * block.stride, *grad = g + i * block.stride, *kept = dropped.data() + i * block.stride;
      auto dot = hn::Zero(d);
      for_each_vector(h.width, [&](size_t j, auto io) HWY_ATTR {
        dot = hn::MulAdd(io.load(out + token + j), io.load(grad_out + token + j), dot);
      });
      const auto mean = hn::Set(d, sum_lanes(dot)), log_sum = hn::Set(d, log_sums[first + i]);
      const auto scale = hn::Set(d, h.scale);
      DropRow(h, block, i, range, grad);
      for_each_vector(range.size(), [&](size_t j, auto io) HWY_ATTR {
        const size_t at = range.first + j;
        const auto e = hn::Exp(d, hn::MulSub(io.load(row + at), scale, log_sum));
        io.store(e, kept + at);
        io.store(hn::Mul(hn::Mul(e, scale), hn::Sub(io.load(grad + at), mean)), grad + at);
      });
      DropRow(h, block, i, range, kept);
      ZeroOutside(range, block.stride, grad);
    }
    const int64_t tokens = first * h.query_stride, keys = block.keys.first * h.key_stride;
    small_gemm(block.num_queries, h.width, block.keys.size(), g, block.stride, 1, k + keys, h.key_stride,
               grad_q + tokens, h.query_stride, /*accumulate=*/false);
    small_gemm(block.keys.size(), h.width, block.num_queries, g, 1, block.stride, q + tokens, h.query_stride,
               grad_k + keys, h.key_stride, /*accumulate=*/true);
    small_gemm(block.keys.size(), h.width, block.num_queries, dropped.data(), 1, block.stride, grad_out + tokens,
               h.query_stride, grad_v + keys, h.key_stride, /*accumulate=*/true);
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
