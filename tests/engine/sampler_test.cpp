#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "support/errors.h"

namespace pmnet {
namespace {

constexpr int64_t kVocabulary = 384;

ByteTokenizer published() { return {254, 255, kVocabulary}; }

std::vector<float> flat_logits() { return std::vector<float>(kVocabulary, 0.0f); }

std::map<int64_t, int> draw(const SamplingSettings& settings, const std::vector<float>& logits, int times,
                            const ByteTokenizer& tokenizer = published()) {
  const Sampler sampler(settings, tokenizer);
  std::map<int64_t, int> counts;
  for (int position = 0; position < times; ++position) ++counts[sampler.sample(logits, position)];
  return counts;
}

TEST(Sampler, NeverChoosesWhatIsNeitherByteNorEndOfText) {
  std::vector<float> logits = flat_logits();
  logits[254] = 50;
  for (int id = 256; id < kVocabulary; ++id) logits[id] = 50;
  const auto counts = draw({}, logits, 20'000);
  EXPECT_EQ(counts.size(), 255u);  // 254 bytes and EOS
  EXPECT_TRUE(counts.contains(255));
  EXPECT_FALSE(counts.contains(254));
  EXPECT_EQ(counts.rbegin()->first, 255);
}

TEST(Sampler, AllowsEveryByteWhereMarksHaveIdsOfTheirOwn) {
  std::vector<float> logits = flat_logits();
  logits[256] = 50;
  const auto counts = draw({}, logits, 20'000, ByteTokenizer(256, 257, kVocabulary));
  EXPECT_EQ(counts.size(), 257u);
  EXPECT_FALSE(counts.contains(256));
  EXPECT_TRUE(counts.contains(257));
}

TEST(Sampler, TakesTheLikeliestAtTemperatureZero) {
  std::vector<float> logits = flat_logits();
  logits[7] = logits[9] = 1;
  EXPECT_EQ(draw({.temperature = 0}, logits, 100), (std::map<int64_t, int>{{7, 100}}));
  EXPECT_EQ(draw({.top_k = 1}, logits, 100), (std::map<int64_t, int>{{7, 100}}));
  EXPECT_EQ(draw({.top_p = 1e-9}, logits, 100), (std::map<int64_t, int>{{7, 100}}));
  logits[9] += 1e-3f;
  EXPECT_EQ(draw({.temperature = 1e-300}, logits, 100), (std::map<int64_t, int>{{9, 100}}));
}

TEST(Sampler, KeepsTheLikeliestK) {
  std::vector<float> logits = flat_logits();
  for (const int id : {10, 20, 30}) logits[id] = 2;
  const auto counts = draw({.top_k = 3}, logits, 3000);
  ASSERT_EQ(counts.size(), 3u);
  for (const int id : {10, 20, 30}) EXPECT_GT(counts.at(id), 800) << id;
  EXPECT_EQ(draw({.top_k = 1000}, logits, 20'000).size(), 255u);
}

TEST(Sampler, KeepsTheFewestThatReachTopP) {
  // Probabilities 1/2, 1/4, 1/8 and the rest together 1/8.
  std::vector<float> logits = flat_logits();
  const double rest = 1.0 / 8 / 252;
  logits[1] = std::log(0.5 / rest);
  logits[2] = std::log(0.25 / rest);
  logits[3] = std::log(0.125 / rest);
  EXPECT_EQ(draw({.top_p = 0.4}, logits, 1000).size(), 1u);
  EXPECT_EQ(draw({.top_p = 0.6}, logits, 1000).size(), 2u);
  EXPECT_EQ(draw({.top_p = 0.8}, logits, 1000).size(), 3u);
  const auto two = draw({.top_p = 0.6}, logits, 60'000);
  EXPECT_NEAR(two.at(1) / 60'000.0, 2.0 / 3, 0.01);
}

TEST(Sampler, DrawsWithTheProbabilitiesOfTheTemperature) {
  std::vector<float> logits(kVocabulary, -1e4f);
  const std::vector<float> some = {0.0f, 0.5f, 1.0f, -1.0f};
  std::copy(some.begin(), some.end(), logits.begin());
  for (const double temperature : {0.5, 1.0, 3.0}) {
    double total = 0;
    for (const float logit : some) total += std::exp(logit / temperature);
    constexpr int kDraws = 100'000;
    const auto counts = draw({.temperature = temperature, .seed = 11}, logits, kDraws);
    for (size_t id = 0; id < some.size(); ++id) {
      const double p = std::exp(some[id] / temperature) / total;
      EXPECT_NEAR(counts.at(id) / double{kDraws}, p, 5 * std::sqrt(p / kDraws)) << temperature << " " << id;
    }
  }
}

TEST(Sampler, DependsOnSeedAndPositionAlone) {
  const std::vector<float> logits = flat_logits();
  const Sampler one({.seed = 1}, published()), again({.seed = 1}, published()), other({.seed = 2}, published());
  std::vector<int64_t> forward, backward;
  int equal_to_other = 0;
  for (int p = 0; p < 1000; ++p) forward.push_back(one.sample(logits, p));
  for (int p = 999; p >= 0; --p) backward.insert(backward.begin(), again.sample(logits, p));
  for (int p = 0; p < 1000; ++p) equal_to_other += forward[p] == other.sample(logits, p);
  EXPECT_EQ(forward, backward);
  EXPECT_LT(equal_to_other, 30);
}

TEST(Sampler, RefusesLogitsThatAreNotFinite) {
  std::vector<float> logits = flat_logits();
  logits[300] = std::numeric_limits<float>::quiet_NaN();  // stands for nothing, so nobody looks
  EXPECT_NO_THROW(draw({}, logits, 1));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    logits[65] = bad;
    EXPECT_NE(user_error_of([&] { draw({.temperature = 0}, logits, 1); }).find("not finite"), std::string::npos);
  }
}

TEST(Sampler, TellsEveryProblemOfTheSettings) {
  const double nan = std::nan("");
  EXPECT_EQ((SamplingSettings{.temperature = nan, .top_k = -1, .top_p = nan}).problems().size(), 3u);
  EXPECT_EQ((SamplingSettings{.temperature = -0.1}).problems().size(), 1u);
  EXPECT_EQ((SamplingSettings{.temperature = 101}).problems().size(), 1u);
  EXPECT_EQ((SamplingSettings{.top_p = 0}).problems().size(), 1u);
  EXPECT_EQ((SamplingSettings{.top_p = 1.01}).problems().size(), 1u);
  EXPECT_TRUE((SamplingSettings{.temperature = 0, .top_k = 5, .top_p = 0.5}).problems().empty());
  EXPECT_NE(user_error_of([] { Sampler({.temperature = 1, .top_p = 2}, published()); }).find("--top-p is 2"),
            std::string::npos);
}

}  // namespace
}  // namespace pmnet
