// The same increments give the same bits, however they are cut, batched and spread over threads; and nothing drifts.
#include <ATen/Parallel.h>

#include <numbers>
#include <random>

#include "phase_cases.h"

namespace pmnet::ops {
namespace {

constexpr int64_t kSlots = 4;

// What the tokens of a batch write at every level of a tree: increments and groups, level by level.
struct Writes {
  std::vector<Tensor> weights, update, group;  // [B,T,N], [B,T,M], [B,T]
  std::vector<int64_t> num_groups;
};

Writes random_writes(int64_t batch, int64_t time, int64_t levels, int64_t size, uint64_t seed) {
  Random random(seed);
  Writes writes;
  Tensor group = at::zeros({batch, time}, at::kLong);
  for (int64_t level = 0, groups = 1; level < levels; ++level, groups *= kSlots) {
    writes.weights.push_back(random.normal({batch, time, kSlots}).softmax(-1).to(at::kFloat));
    writes.update.push_back((std::numbers::pi * random.normal({batch, time, size}, 2).tanh()).to(at::kFloat));
    writes.group.push_back(group);
    writes.num_groups.push_back(groups);
    group = group * kSlots + random.integers(0, kSlots, {batch, time});
  }
  return writes;
}

Writes select_rows(const Writes& all, const std::vector<int64_t>& rows) {
  const Tensor index = at::tensor(rows, at::kLong);
  Writes out{{}, {}, {}, all.num_groups};
  for (size_t level = 0; level < all.group.size(); ++level) {
    out.weights.push_back(all.weights[level].index_select(0, index));
    out.update.push_back(all.update[level].index_select(0, index));
    out.group.push_back(all.group[level].index_select(0, index));
  }
  return out;
}

// Every bit of a pass: per level the path [B,T,N,M] and the memory after it [B,G,N,M].
struct Bits {
  std::vector<Tensor> path, memory;
  bool operator==(const Bits& other) const {
    for (size_t level = 0; level < path.size(); ++level)
      if (!at::equal(path[level], other.path[level]) || !at::equal(memory[level], other.memory[level])) return false;
    return path.size() == other.path.size();
  }
};

// Runs the writes in pieces that end at the given cuts, carrying the state.
Bits run(const Writes& writes, std::vector<int64_t> cuts, Implementation implementation) {
  const ImplementationGuard guard(implementation);
  at::NoGradGuard no_grad;
  const size_t levels = writes.group.size();
  cuts.push_back(writes.group[0].size(1));
  std::vector<Phases> memory(levels);
  std::vector<std::vector<Tensor>> pieces(levels);
  int64_t begin = 0;
  for (const int64_t end : cuts) {
    Phases above;
    for (size_t level = 0; level < levels; ++level) {
      const auto part = [&](const Tensor& x) { return x.narrow(1, begin, end - begin); };
      const SegmentedScanResult out =
          segmented_scan(part(writes.weights[level]), part(writes.update[level]), part(writes.group[level]),
                         writes.num_groups[level], above, memory[level], std::nullopt, false);
      above = out.path;
      memory[level] = out.final_state;
      pieces[level].push_back(*out.path.turns);
    }
    begin = end;
  }
  Bits bits;
  for (size_t level = 0; level < levels; ++level) {
    bits.path.push_back(at::cat(pieces[level], 1));
    bits.memory.push_back(*memory[level].turns);
  }
  return bits;
}

TEST(PhaseBits, AreTheSameForTwoHundredSplitsOnBothPaths) {
  constexpr int64_t kTime = 4096, kLevels = 4;
  const Writes writes = random_writes(1, kTime, kLevels, /*size=*/5, /*seed=*/40);
  for (int64_t level = 0; level < kLevels; ++level)  // every group of every level is visited
    ASSERT_EQ(at::bincount(writes.group[level].view({-1}), {}, writes.num_groups[level]).min().item<int64_t>() > 0,
              true);
  const Bits whole = run(writes, {}, Implementation::kFast);
  ASSERT_TRUE(whole == run(writes, {}, Implementation::kReference));
  std::mt19937_64 engine(41);
  for (int split = 0; split < 200; ++split) {
    std::vector<int64_t> cuts(engine() % 24);
    for (int64_t& cut : cuts) cut = static_cast<int64_t>(engine() % (kTime + 1));  // equal cuts: empty pieces
    std::sort(cuts.begin(), cuts.end());
    ASSERT_TRUE(whole == run(writes, cuts, split % 40 == 0 ? Implementation::kReference : Implementation::kFast))
        << "split " << split;
  }
}

TEST(PhaseBits, AreTheSameTokenByToken) {
  const Writes writes = random_writes(2, 300, /*levels=*/3, /*size=*/5, /*seed=*/42);
  std::vector<int64_t> cuts(299);
  std::iota(cuts.begin(), cuts.end(), 1);
  const Bits whole = run(writes, {}, Implementation::kFast);
  EXPECT_TRUE(whole == run(writes, cuts, Implementation::kFast));
  EXPECT_TRUE(whole == run(writes, cuts, Implementation::kReference));
}

TEST(PhaseBits, AreTheSameForAnyNumberOfThreads) {
  const Writes writes = random_writes(2, 300, /*levels=*/2, /*size=*/140, /*seed=*/43);
  const int before = at::get_num_threads();
  const Bits whole = run(writes, {}, Implementation::kFast);
  for (const int threads : {1, 2, 4}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(whole == run(writes, {}, Implementation::kFast)) << threads;
    EXPECT_TRUE(whole == run(writes, {123, 124}, Implementation::kReference)) << threads;
  }
  at::set_num_threads(before);
}

TEST(PhaseBits, AreTheSameInAnyCompany) {
  const Writes all = random_writes(6, 400, /*levels=*/3, /*size=*/7, /*seed=*/44);
  for (const Implementation implementation : {Implementation::kFast, Implementation::kReference}) {
    const Bits alone = run(select_rows(all, {4}), {}, implementation);
    for (const std::vector<int64_t>& company : {std::vector<int64_t>{4, 0}, {1, 4}, {5, 3, 4}, {0, 1, 2, 3, 4, 5}}) {
      const Bits together = run(select_rows(all, company), {}, implementation);
      const int64_t row = std::find(company.begin(), company.end(), 4) - company.begin();
      for (size_t level = 0; level < alone.path.size(); ++level) {
        EXPECT_TRUE(at::equal(alone.path[level], together.path[level].narrow(0, row, 1)));
        EXPECT_TRUE(at::equal(alone.memory[level], together.memory[level].narrow(0, row, 1)));
      }
    }
  }
}

// The sum of floats to 2^-60, without rounding at any length.
class ExactSum {
 public:
  void add(float x) { sum_ += static_cast<__int128>(std::ldexp(static_cast<double>(x), 60)); }
  // In [-pi, pi].
  long double angle() const {
    return std::remainder(static_cast<long double>(sum_) * 0x1p-60L, 2 * std::numbers::pi_v<long double>);
  }

 private:
  __int128 sum_ = 0;
};

enum class Regime { kRandom, kBiased, kSaturated, kConstant };

Tensor increments(Regime regime, int64_t time, int64_t size, Random& random) {
  const Tensor uniform = random.integers(0, 1 << 24, {1, time, size}).to(at::kDouble) / (1 << 24);  // [0, 1)
  if (regime == Regime::kRandom) return ((uniform - 0.5) * (std::numbers::pi / 2)).to(at::kFloat);
  if (regime == Regime::kBiased) return (0.4 + (uniform - 0.5) * 0.8).to(at::kFloat);
  if (regime == Regime::kSaturated) return ((0.9 + 0.1 * uniform) * std::numbers::pi).to(at::kFloat);
  const Tensor constants = at::tensor({1.0, -0.1, 3.0, 1e-3, std::numbers::pi, -2.5, 0.7, 1e-7}, at::kDouble);
  return constants.narrow(0, 0, size).view({1, 1, size}).expand({1, time, size}).to(at::kFloat);
}

class PhaseDrift : public testing::TestWithParam<Regime> {};

TEST_P(PhaseDrift, StaysBelowFloatRoundingAfterHalfAMillionSteps) {
  constexpr int64_t kSteps = 512 * 1024, kChunk = 32 * 1024, kSize = 8;
  constexpr double kLimit = 3e-7;
  const float weight = 1.0f;
  for (const uint64_t seed : {50, 51}) {
    Random random(seed);
    std::vector<ExactSum> exact(kSize);
    Phases memory, path;
    for (int64_t done = 0; done < kSteps; done += kChunk) {
      const Tensor update = increments(GetParam(), kChunk, kSize, random).contiguous();
      const SegmentedScanResult out =
          segmented_scan(at::full({1, kChunk, 1}, weight), update, at::zeros({1, kChunk}, at::kLong),
                         /*num_groups=*/1, {}, memory, std::nullopt, false);
      memory = {.turns = out.final_state.turns, .angle = std::nullopt};
      path = out.path;
      const float* delta = update.const_data_ptr<float>();
      for (int64_t i = 0; i < kChunk * kSize; ++i) exact[i % kSize].add(weight * delta[i]);
    }
    const Tensor turns = to_angle(path.turns->narrow(1, kChunk - 1, 1), at::kDouble).view({-1});
    const Tensor angle = path.angle->narrow(1, kChunk - 1, 1).view({-1});
    for (int64_t j = 0; j < kSize; ++j) {
      const auto error = [&](double got) {
        return std::abs(
            static_cast<double>(std::remainder(got - exact[j].angle(), 2 * std::numbers::pi_v<long double>)));
      };
      EXPECT_LE(error(turns[j].item<double>()), kLimit) << "channel " << j;
      EXPECT_LE(error(angle[j].item<float>()), kLimit) << "channel " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Regimes, PhaseDrift,
                         testing::Values(Regime::kRandom, Regime::kBiased, Regime::kSaturated, Regime::kConstant));

}  // namespace
}  // namespace pmnet::ops
