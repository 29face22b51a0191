#include "compare.h"
#include "kernels/dropout_bits.h"

namespace pmnet::ops {
namespace {

struct AttentionCase {
  int64_t batch = 2, queries = 5, keys = 5, heads = 2, kv_heads = 2, width = 6, window = 3;
  std::vector<int64_t> first_key = {};  // empty: none
  double dropout = 0;
};

void check_window(const AttentionCase& c, bool derivative = false) {
  SCOPED_TRACE(fmt::format("B{} T{} S{} A{}/{} Dh{} w{} first_key {} dropout {}", c.batch, c.queries, c.keys, c.heads,
                           c.kv_heads, c.width, c.window, c.first_key.empty() ? -1 : c.first_key[0], c.dropout));
  Random random(c.queries + c.keys);
  AttentionDropout dropout{.probability = c.dropout, .row_keys = {}, .positions = {}};
  if (c.dropout > 0) {
    dropout.row_keys = random.integers(INT64_MIN, INT64_MAX, {c.batch});
    dropout.positions = random.integers(c.keys, int64_t{1} << 40, {c.batch});
  }
  OptTensor first_key;
  if (!c.first_key.empty()) first_key = at::tensor(c.first_key, at::kLong);
  const double scale = 1 / std::sqrt(static_cast<double>(c.width));
  const auto function = [&](const std::vector<Tensor>& in) {
    return std::vector{window_attention(in[0], in[1], in[2], first_key, c.window, scale, dropout)};
  };
  const std::vector<Tensor> inputs{random.normal({c.batch, c.queries, c.heads, c.width}, 2),
                                   random.normal({c.batch, c.keys, c.kv_heads, c.width}),
                                   random.normal({c.batch, c.keys, c.kv_heads, c.width})};
  derivative ? expect_op_is_right(function, inputs) : expect_op_agrees(function, inputs);
}

TEST(WindowAttention, AgreesForEveryWindow) {
  for (const int64_t window : {0, 1, 2, 7, 64, 128, 1000})
    for (const int64_t time : {1, 2, 3, 4, 5, 63, 64, 65, 130})
      check_window({.queries = time, .keys = time, .window = window});
}

// Keys come in parts, and the highest score so far may be in any of them.
TEST(WindowAttention, AgreesWithManyKeys) {
  for (const int64_t window : {0, 100, 192, 193, 300})
    for (const int64_t time : {192, 193, 450})
      check_window({.batch = 1, .queries = time, .keys = time, .window = window});
  for (const int64_t queries : {3, 70})
    check_window({.queries = queries, .keys = 500, .window = 0, .first_key = {100, 400}, .dropout = 0.2});
}

TEST(WindowAttention, AgreesForOddWidths) {
  for (const int64_t width : {1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 64})
    for (const int64_t time : {3, 20}) check_window({.queries = time, .keys = time, .width = width, .window = 6});
}

TEST(WindowAttention, AgreesWithPastKeys) {
  for (const int64_t window : {0, 1, 4, 100}) {
    for (const int64_t queries : {1, 3, 4, 70}) {
      check_window({.queries = queries, .keys = queries + 5, .window = window});
      check_window({.queries = queries, .keys = queries + 5, .window = window, .first_key = {5, 2}});
      check_window({.queries = queries, .keys = queries + 80, .window = window, .first_key = {0, 79}});
    }
  }
}

TEST(WindowAttention, AgreesWithGroupedQueries) {
  check_window({.queries = 9, .keys = 9, .heads = 6, .kv_heads = 2});
  check_window({.queries = 70, .keys = 75, .heads = 4, .kv_heads = 1, .window = 66, .first_key = {1, 3}});
}

TEST(WindowAttention, AgreesWithDropout) {
  check_window(
      {.queries = 70, .keys = 75, .heads = 4, .kv_heads = 2, .window = 20, .first_key = {1, 3}, .dropout = 0.5});
  check_window({.queries = 1, .keys = 40, .window = 0, .dropout = 0.3});
  check_window({.queries = 600, .keys = 600, .heads = 1, .kv_heads = 1, .width = 3, .window = 0, .dropout = 0.1});
}

TEST(WindowAttention, OneTokenWithoutGraphAgrees) {
  const at::NoGradGuard no_grad;
  Random random(7);
  const Tensor q = random.normal({3, 1, 6, 9}, 2), k = random.normal({3, 37, 2, 9}), v = random.normal({3, 37, 2, 9});
  const Tensor first_key = at::tensor({0, 36, 20}, at::kLong);
  for (const int64_t window : {0, 1, 10, 37, 100})
    for (const OptTensor& first : {OptTensor(), OptTensor(first_key)}) {
      const auto attend = [&](Implementation implementation) {
        const ImplementationGuard guard(implementation);
        return window_attention(q, k, v, first, window, 0.3, {});
      };
      EXPECT_TRUE(at::allclose(attend(Implementation::kFast), attend(Implementation::kReference), 1e-5, 1e-6))
          << "window " << window;
    }
}

TEST(WindowAttention, AgreesWithoutTokens) {
  check_window({.queries = 0, .keys = 0});
  check_window({.queries = 0, .keys = 4});
  check_window({.batch = 0});
}

TEST(WindowAttention, GradientIsTheDerivative) {
  check_window({.batch = 1, .width = 3}, /*derivative=*/true);
  check_window({.queries = 3, .keys = 6, .heads = 2, .kv_heads = 1, .width = 2, .window = 0, .first_key = {2, 0}},
               true);
  check_window({.queries = 6, .keys = 6, .width = 2, .window = 0, .dropout = 0.4}, true);
}

TEST(WindowAttention, SurvivesHugeScores) {
  const Tensor q = at::full({1, 3, 1, 8}, 100.0f), v = at::arange(24, at::kFloat).view({1, 3, 1, 8});
  Tensor k = at::full({1, 3, 1, 8}, -100.0f);
  k[0][0].fill_(100.0f);
  const Tensor out = window_attention(q, k, v, std::nullopt, 0, 1.0, {});
  EXPECT_TRUE(at::equal(out, v.narrow(1, 0, 1).expand({1, 3, 1, 8})));
}

// Every part of the keys has a score far above those of the parts before it, or far below.
TEST(WindowAttention, SurvivesScoresThatRiseAndFall) {
  constexpr int64_t kTime = 500;
  const Tensor q = at::ones({1, kTime, 1, 1}), v = at::arange(kTime, at::kFloat).view({1, kTime, 1, 1});
  const Tensor rising = v * 1000;
  EXPECT_TRUE(at::equal(window_attention(q, rising, v, std::nullopt, 0, 1.0, {}), v));
  EXPECT_TRUE(at::equal(window_attention(q, -rising, v, std::nullopt, 0, 1.0, {}), at::zeros_like(v)));
}

// The probability matrix itself, read off through one-hot values.
Tensor probabilities(int64_t time, int64_t heads, const AttentionDropout& dropout, Implementation implementation) {
  const ImplementationGuard guard(implementation);
  const Tensor zero = at::zeros({1, time, heads, time});
  const Tensor one_hot = at::eye(time).view({1, time, 1, time}).expand({1, time, heads, time});
  return window_attention(zero, zero, one_hot, std::nullopt, 0, 1.0, dropout).squeeze(0);  // [query, head, key]
}

TEST(AttentionDropout, BothPathsDropTheSameBits) {
  constexpr int64_t kTime = 130, kHeads = 3, kPosition = (int64_t{1} << 33) + 5, kRowKey = -1234567890123456789;
  const AttentionDropout dropout{.probability = 0.3,
                                 .row_keys = at::tensor({kRowKey}, at::kLong),
                                 .positions = at::tensor({kPosition}, at::kLong)};
  const Tensor fast = probabilities(kTime, kHeads, dropout, Implementation::kFast);
  const Tensor reference = probabilities(kTime, kHeads, dropout, Implementation::kReference);
  const auto kept = fast.accessor<float, 3>();
  int64_t survivors = 0, candidates = 0;
  for (int64_t t = 0; t < kTime; ++t) {
    for (int64_t h = 0; h < kHeads; ++h) {
      const uint64_t key = kernels::query_key(kRowKey, h, kPosition + t);
      for (int64_t s = 0; s <= t; ++s, ++candidates) {
        const bool survives =
            kernels::survives(key, static_cast<uint32_t>(kPosition + s), kernels::drop_threshold(0.3));
        ASSERT_EQ(kept[t][h][s] > 0, survives) << t << " " << h << " " << s;
        survivors += survives;
      }
    }
  }
  EXPECT_TRUE(at::equal(fast > 0, reference > 0));
  const double rate = static_cast<double>(survivors) / candidates, sigma = std::sqrt(0.3 * 0.7 / candidates);
  EXPECT_NEAR(rate, 0.7, 4 * sigma);
}

TEST(AttentionDropout, IsRefusedWithoutKeys) {
  const Tensor x = at::zeros({1, 2, 1, 4});
  EXPECT_THROW(window_attention(x, x, x, std::nullopt, 0, 1.0, {.probability = 0.1, .row_keys = {}, .positions = {}}),
               c10::Error);
}

}  // namespace
}  // namespace pmnet::ops
