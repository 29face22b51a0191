#include "kernels/dropout_bits.h"

#include <cmath>
#include <vector>

#include "every_target.h"
#include "kernels/window_attention.h"

namespace pmnet::kernels {
namespace {

// How often neither of two streams of bits drops, against chance; and how often each survives.
struct Rates {
  double first, second, both, sigma;
};

template <typename First, typename Second>
Rates survival(double probability, const First& first, const Second& second) {
  constexpr int64_t kCount = 400'000;
  const uint32_t threshold = drop_threshold(probability);
  int64_t a = 0, b = 0, both = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const bool x = first(i, threshold), y = second(i, threshold);
    a += x, b += y, both += x && y;
  }
  const auto rate = [](int64_t n) { return static_cast<double>(n) / kCount; };
  return {rate(a), rate(b), rate(both), std::sqrt(probability * (1 - probability) / kCount)};
}

void expect_independent(const Rates& rates, double probability) {
  const double keep = 1 - probability;
  EXPECT_NEAR(rates.first, keep, 4 * rates.sigma);
  EXPECT_NEAR(rates.second, keep, 4 * rates.sigma);
  EXPECT_NEAR(rates.both, keep * keep, 4 * rates.sigma);
}

TEST(DropoutBits, KeepTheRightShareAndNeighboursAreIndependent) {
  for (const double p : {0.1, 0.5, 0.9}) {
    const auto at = [](uint64_t row, uint64_t head, int64_t query, int64_t key, uint32_t threshold) {
      return survives(query_key(row, head, query), static_cast<uint32_t>(key), threshold);
    };
    const auto here = [&](int64_t i, uint32_t threshold) { return at(77, 3, 5000 + i / 128, i % 128, threshold); };
    const auto other_head = [&](int64_t i, uint32_t t) { return at(77, 4, 5000 + i / 128, i % 128, t); };
    const auto next_query = [&](int64_t i, uint32_t t) { return at(77, 3, 5001 + i / 128, i % 128, t); };
    const auto next_key = [&](int64_t i, uint32_t t) { return at(77, 3, 5000 + i / 128, i % 128 + 1, t); };
    const auto other_row = [&](int64_t i, uint32_t t) { return at(78, 3, 5000 + i / 128, i % 128, t); };
    expect_independent(survival(p, here, other_head), p);
    expect_independent(survival(p, here, next_query), p);
    expect_independent(survival(p, here, next_key), p);
    expect_independent(survival(p, here, other_row), p);
  }
}

TEST(DropoutBits, OfTheVectorCodeAreTheScalarOnes) {
  constexpr int64_t kKeys = 77, kQueries = 70, kFirst = 7;  // seven keys of the past
  constexpr uint64_t kRow = 0xFEDCBA9876543210, kHead = 2;
  constexpr int64_t kPosition = (int64_t{1} << 32) + 3;  // key positions wrap in 32 bits on the way
  std::vector<float> zero(kKeys * kKeys, 0.0f), one_hot(kKeys * kKeys, 0.0f);
  for (int64_t i = 0; i < kKeys; ++i) one_hot[i * kKeys + i] = 1;
  const AttentionHead head{.num_queries = kQueries,
                           .num_keys = kKeys,
                           .width = kKeys,
                           .query_stride = kKeys,
                           .key_stride = kKeys,
                           .window = 50,
                           .first_key = 2,
                           .scale = 1,
                           .drop_threshold = drop_threshold(0.4),
                           .keep_scale = static_cast<float>(1 / 0.6),
                           .row_key = kRow,
                           .head = kHead,
                           .first_position = kPosition};
  on_every_target([&] {
    std::vector<float> out(kQueries * kKeys), log_sums(kQueries);
    attend(head, 0, kQueries, zero.data(), zero.data(), one_hot.data(), out.data(), log_sums.data());
    for (int64_t t = 0; t < kQueries; ++t) {
      const uint64_t key = query_key(kRow, kHead, kPosition + t);
      for (int64_t s = 0; s < kKeys; ++s) {
        const bool seen = s >= 2 && s <= t + kFirst && s > t + kFirst - 50;
        const bool kept = survives(key, static_cast<uint32_t>(kPosition - kFirst + s), head.drop_threshold);
        ASSERT_EQ(out[t * kKeys + s] > 0, seen && kept) << "query " << t << " key " << s;
      }
    }
  });
}

TEST(DropoutBits, ProbabilityZeroDropsNothing) { EXPECT_EQ(drop_threshold(0.0), 0u); }

}  // namespace
}  // namespace pmnet::kernels
