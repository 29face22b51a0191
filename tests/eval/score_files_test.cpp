#include "eval/score_files.h"

#include <gtest/gtest.h>

#include "eval/curves.h"
#include "eval/routing.h"
#include "support/errors.h"
#include "support/small_model.h"

namespace pmnet {
namespace {

Evaluation made_up(const std::string& label, int64_t documents, double first_bits) {
  Evaluation evaluation;
  evaluation.labels = {label};
  evaluation.seconds = {1.5};
  evaluation.throughput.emplace_back(64);
  for (int64_t d = 0; d < documents; ++d) {
    DocumentScore document;
    document.name = fmt::format("document {}", d);
    document.bytes = 300;
    PositionSums& sums = document.scores.emplace_back();
    std::vector<double> bits;
    for (int64_t i = 0; i < 300; ++i) bits.push_back(first_bits + 0.001 * static_cast<double>(i * (d + 1)));
    sums.add(bits);
    evaluation.documents.push_back(document);
    evaluation.throughput[0].add(
        {.first = 128, .bytes = 64, .seconds = 0.5, .fastest = 0.25, .state_bytes = 9, .resident_bytes = 8});
  }
  return evaluation;
}

TEST(ScoreFiles, KeepEveryNumber) {
  const Evaluation before = made_up("one", 3, 2);
  const Evaluation after = load_scores(nlohmann::json::parse(save_scores(before).dump()));
  EXPECT_EQ(after.labels, before.labels);
  EXPECT_EQ(after.seconds, before.seconds);
  ASSERT_EQ(after.documents.size(), 3u);
  for (size_t d = 0; d < 3; ++d) {
    EXPECT_EQ(after.documents[d].name, before.documents[d].name);
    EXPECT_EQ(after.documents[d].scores[0].count(), 300);
    EXPECT_EQ(after.documents[d].scores[0].windows(64), before.documents[d].scores[0].windows(64));
    EXPECT_EQ(after.documents[d].scores[0].octaves(), before.documents[d].scores[0].octaves());
  }
  EXPECT_NEAR(mean_bits(after, 0).high, mean_bits(before, 0).high, 1e-12);
  EXPECT_EQ(after.throughput[0].points().at(0).bytes, 192);
  EXPECT_EQ(after.throughput[0].points().at(0).fastest, 0.25);
  EXPECT_EQ(after.throughput[0].width(), 64);
}

TEST(ScoreFiles, KeepWhatIsNotANumber) {
  Evaluation before = made_up("one", 1, 2);
  before.documents[0].scores[0].add(std::vector<double>{std::nan("")});
  const Evaluation after = load_scores(nlohmann::json::parse(save_scores(before).dump()));
  EXPECT_TRUE(std::isnan(after.documents[0].scores[0].bits()));
  EXPECT_EQ(after.documents[0].scores[0].octaves()[0], 2);
}

TEST(ScoreFiles, JoinDocumentsAndModels) {
  Evaluation all = made_up("one", 2, 2);
  add_documents(all, made_up("one", 1, 3));
  EXPECT_EQ(all.documents.size(), 3u);
  EXPECT_EQ(all.seconds[0], 3);
  EXPECT_EQ(all.throughput[0].points().at(0).bytes, 192);
  Evaluation other = made_up("two", 2, 4);
  add_documents(other, made_up("two", 1, 5));
  const Evaluation both = side_by_side({all, other});
  EXPECT_EQ(both.labels, (std::vector<std::string>{"one", "two"}));
  EXPECT_NEAR(mean_bits(both, 1, 0).mean, mean_bits(both, 1).mean - mean_bits(both, 0).mean, 1e-9);
  other.documents[1].bytes = 299;
  EXPECT_NE(user_error_of([&] { side_by_side({all, other}); }).find("different documents"), std::string::npos);
}

TEST(Curves, BetweenPositionsAndExcess) {
  const Evaluation both = side_by_side({made_up("base", 2, 2), made_up("more", 2, 2.25)});
  EXPECT_NEAR(mean_bits_between(both, {65, 192}, 1, 0).mean, 0.25, 1e-9);
  EXPECT_NEAR(mean_bits_between(both, {1, 64}, 0).mean, 2 + 0.0015 * 31.5, 1e-9);
  // Document d rises by 0.001 (d + 1) per byte: 128 bytes later by 0.128 and 0.256.
  const Interval change = change_between(both, 0, {1, 64}, {129, 192});
  EXPECT_NEAR(change.mean, 0.192, 1e-9);
  EXPECT_EQ(change.count, 2);
  const std::vector<ExcessPoint> excess = cumulative_excess(both, 1, 0);
  ASSERT_EQ(excess.size(), 4u);  // whole windows of 64 within 300 bytes
  EXPECT_EQ(excess[1].position, 128);
  ASSERT_EQ(excess[1].bits.size(), 2u);
  EXPECT_NEAR(excess[1].bits[1], 32, 1e-9);
}

TEST(RoutingStatistics, CountsTheSameInAnyChunks) {
  const PmnetConfig config = small_config();
  const auto model = small_model(config);
  const Tensor ids = random_ids(config, 1, 90);
  const auto use_of = [&](int64_t chunk) {
    RoutingStatistics routing;
    ModelState state = model->initial_state(1);
    at::NoGradGuard no_grad;
    for (int64_t begin = 0; begin < 90; begin += chunk) {
      Trace trace;
      model->hidden(ids.narrow(1, begin, std::min(chunk, 90 - begin)), &state, {}, &trace);
      routing.add(trace);
    }
    return routing;
  };
  const RoutingStatistics whole = use_of(90), parts = use_of(7);
  ASSERT_EQ(whole.levels().size(), 3u);
  for (size_t level = 0; level < 3; ++level) {
    const LevelRouting &one = whole.levels()[level], &other = parts.levels()[level];
    EXPECT_EQ(one.tokens().size(), static_cast<size_t>(std::pow(3, level + 1)));
    EXPECT_EQ(one.total(), 90);
    EXPECT_GT(one.changes(), 0);
    EXPECT_EQ(one.change_rate(), one.changes() / 89.0);
    EXPECT_EQ(other.tokens(), one.tokens());
    EXPECT_EQ(other.changes(), one.changes());
  }
}

TEST(RoutingStatistics, EntropyOfAnEvenLoadIsTheLogarithmOfItsGroups) {
  LevelRouting even(4), one(4);
  for (int64_t token = 0; token < 20; ++token) {
    even.add(token % 4);
    one.add(1);
  }
  EXPECT_NEAR(even.entropy(), 2, 1e-12);
  EXPECT_EQ(even.used(), 4);
  EXPECT_EQ(even.largest_share(), 0.25);
  EXPECT_EQ(even.change_rate(), 1);
  EXPECT_EQ(one.entropy(), 0);
  EXPECT_EQ(one.used(), 1);
  EXPECT_EQ(one.change_rate(), 0);
  even.next_text();
  even.add(0);  // follows a 3, but of another text
  EXPECT_EQ(even.changes(), 19);
}

}  // namespace
}  // namespace pmnet
