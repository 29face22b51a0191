// A block of queries and the keys they see, compiled once per instruction set (Highway's per-target include).
#if defined(PMNET_KERNELS_ATTENTION_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PMNET_KERNELS_ATTENTION_BLOCK_INL_H_
#undef PMNET_KERNELS_ATTENTION_BLOCK_INL_H_
#else
#define PMNET_KERNELS_ATTENTION_BLOCK_INL_H_
#endif

#include <algorithm>

#include "kernels/dropout_bits.h"
#include "kernels/simd-inl.h"
#include "kernels/small_gemm-inl.h"
#include "kernels/window_attention.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

using Bits = hn::RebindToUnsigned<Floats>;

constexpr int64_t kQueries = 64;  // of a block
constexpr int64_t kKeys = 192;    // of a part; a block of 64 queries with a window of 128 sees 191

// Some queries of a head and a part of the keys they see. Tables of scores are [key, query], a lane per query: keys and
// values are read in place, only the few queries are transposed, and softmax needs no sum over lanes.
struct AttentionBlock {
  const AttentionHead& head;
  int64_t first_query, num_queries;
  int64_t position;  // index of the key that belongs to the first query
  int64_t first_key, num_keys = 0;
  HWY_ALIGN uint32_t low[kQueries] = {}, high[kQueries] = {};  // the queries' hashes for dropout

  AttentionBlock(const AttentionHead& h, int64_t begin, int64_t end)
      : head(h), first_query(begin), num_queries(end - begin), position(h.num_keys - h.num_queries + begin) {
    first_key = std::max({int64_t{0}, h.first_key, h.window > 0 ? position - h.window + 1 : 0});
    if (h.drop_threshold == 0) return;
    for (int64_t i = 0; i < num_queries; ++i) {
      const uint64_t hash = query_key(h.row_key, h.head, h.first_position + begin + i);
      low[i] = static_cast<uint32_t>(hash);
      high[i] = static_cast<uint32_t>(hash >> 32);
    }
  }

  // Advances to the next part of the keys; false if no query of the block sees any of them.
  bool NextKeys() {
    first_key += num_keys;
    num_keys = std::min(kKeys, position + num_queries - first_key);
    return num_keys > 0;
  }

  // to [width, query] = from [query, width]
  void Transpose(const float* from, float* to) const {
    constexpr int64_t kLine = 16;  // floats of a cache line: whole lines are written
    from += first_query * head.query_stride;
    for (int64_t first = 0; first < num_queries; first += kLine)
      for (int64_t d = 0; d < head.width; ++d)
        for (int64_t i = first; i < std::min(first + kLine, num_queries); ++i)
          to[d * kQueries + i] = from[i * head.query_stride + d];
  }

  // Keys of the part that some of `count` queries see, as indices into the part.
  struct Range {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
  };
  Range KeysSeen(int64_t query, int64_t count) const {
    const int64_t newest = position + std::min(query + count, num_queries) - first_key;
    const int64_t oldest = head.window > 0 ? position + query - head.window + 1 - first_key : 0;
    const int64_t end = std::clamp<int64_t>(newest, 0, num_keys);
    return {std::clamp<int64_t>(oldest, 0, end), end};
  }
  // Queries that see some of `count` keys of the part.
  Range QueriesSeeing(int64_t key, int64_t count) const {
    const int64_t newest = first_key + key + count - 1 + head.window - position;
    const int64_t end = head.window > 0 ? std::clamp<int64_t>(newest, 0, num_queries) : num_queries;
    return {std::clamp<int64_t>(first_key + key - position, 0, end), end};
  }

  // table [key, query] = keys . queries, the latter transposed; only where some query of a group sees the key
  void Dots(const float* keys, const float* queries, float* table) const {
    constexpr int64_t kGroup = 32;  // columns: whole vectors
    for (int64_t query = 0; query < num_queries; query += kGroup) {
      const Range seen = KeysSeen(query, kGroup);
      small_gemm(seen.size(), std::min(kGroup, num_queries - query), head.width,
                 keys + (first_key + seen.begin) * head.key_stride, head.key_stride, 1, queries + query, kQueries,
                 table + seen.begin * kQueries + query, kQueries, /*accumulate=*/false);
    }
  }

  // The table is zero where a query does not see a key: leaving such keys out changes no bit of a sum.
  static constexpr int64_t kRows = 24;  // of a product: a multiple of the six of small_gemm

  // out [query] (+)= the sum over keys of table [key, query] values [key]
  void SumOverKeys(const float* table, const float* values, float* out, bool accumulate) const {
    for (int64_t query = 0; query < num_queries; query += kRows) {
      const Range seen = KeysSeen(query, kRows);
      small_gemm(std::min(kRows, num_queries - query), head.width, seen.size(), table + seen.begin * kQueries + query,
                 1, kQueries, values + (first_key + seen.begin) * head.key_stride, head.key_stride,
                 out + (first_query + query) * head.query_stride, head.query_stride, accumulate);
    }
  }

  // out [key] += the sum over queries of table [key, query] values [query]
  void SumOverQueries(const float* table, const float* values, float* out) const {
    for (int64_t key = 0; key < num_keys; key += kRows) {
      const int64_t rows = std::min(kRows, num_keys - key);
      const Range seeing = QueriesSeeing(key, rows);
      small_gemm(rows, head.width, seeing.size(), table + key * kQueries + seeing.begin, kQueries, 1,
                 values + (first_query + seeing.begin) * head.query_stride, head.query_stride,
                 out + (first_key + key) * head.key_stride, head.key_stride, /*accumulate=*/true);
    }
  }

  // Calls body(key, seen) for every key of the part that a query of the vector starting at `query` sees; `seen` masks
  // the queries whose window contains the key. Calls unseen(key) for the other keys.
  template <class Body, class Unseen>
  HWY_INLINE void ForEachKey(size_t query, const Body& body, const Unseen& unseen) const {
    const Bits bits;
    constexpr int64_t kNoWindow = int64_t{1} << 31;
    const int64_t window = head.window > 0 ? std::min(head.window, kNoWindow) : kNoWindow;
    const Range range = KeysSeen(query, hn::Lanes(bits));
    for (int64_t key = 0; key < range.begin; ++key) unseen(key);
    for (int64_t key = range.begin; key < range.end; ++key) {
      // A key in the future has a negative age, which as an unsigned number is larger than any window: one comparison
      // tests both ends.
      const auto age = hn::Iota(bits, static_cast<uint32_t>(position + query - first_key - key));
      body(key, hn::RebindMask(Floats(), hn::Lt(age, hn::Set(bits, static_cast<uint32_t>(window)))));
    }
    for (int64_t key = range.end; key < num_keys; ++key) unseen(key);
  }
};

// The dropout factor, 0 or 1/(1-p), for a vector of queries and one key: survives() of kernels/dropout_bits.h.
class Dropout {
 public:
  HWY_INLINE Dropout(const AttentionBlock& block, size_t query)
      : head_(block.head),
        first_position_(block.head.first_position + block.first_query - block.position + block.first_key),
        low_(hn::Load(Bits(), block.low + query)),
        high_(hn::Load(Bits(), block.high + query)) {}

  HWY_INLINE FloatVec operator()(int64_t key) const {
    const Bits bits;
    if (head_.drop_threshold == 0) return hn::Set(Floats(), 1.0f);
    auto x = hn::Add(hn::Set(bits, static_cast<uint32_t>(first_position_ + key) * kKeyMultiplier), low_);
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(bits, kRoundMultiplier1));
    x = hn::Mul(hn::Xor(hn::Xor(x, hn::ShiftRight<15>(x)), high_), hn::Set(bits, kRoundMultiplier2));
    x = hn::Xor(x, hn::ShiftRight<15>(x));
    const auto drops = hn::Lt(x, hn::Set(bits, head_.drop_threshold));
    return hn::IfThenZeroElse(hn::RebindMask(Floats(), drops), hn::Set(Floats(), head_.keep_scale));
  }

 private:
  const AttentionHead& head_;
  int64_t first_position_;  // of the keys
  hn::Vec<Bits> low_, high_;
};

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
