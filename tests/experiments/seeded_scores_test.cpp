// Intervals over the seeds of models that read the same texts.
#include "experiments/framework/seeded_scores.h"

#include <gtest/gtest.h>

#include "eval/curves.h"

namespace pmnet {
namespace {

// One model, two documents of 64 bytes with so many bits in each.
Evaluation reading_of(double first, double second) {
  Evaluation evaluation;
  evaluation.labels = {"model"};
  evaluation.seconds = {1};
  evaluation.throughput = {ThroughputCurve(64)};
  for (const double bits : {first, second}) {
    DocumentScore document;
    document.bytes = 64;
    document.scores = {PositionSums(64)};
    document.scores[0].add(std::vector<double>(64, bits));
    evaluation.documents.push_back(document);
  }
  return evaluation;
}

Interval bits_of(const Evaluation& evaluation) { return mean_bits(evaluation, 0); }

TEST(SeededScores, OneSeedIsJudgedOverDocuments) {
  SeededScores scores;
  scores.add(reading_of(1, 3));
  EXPECT_STREQ(scores.over(), "documents");
  const Interval found = scores.over_seeds(bits_of), want = bits_of(scores.seeds[0]);
  EXPECT_EQ(found.count, 2);
  EXPECT_DOUBLE_EQ(found.low, want.low);
}

TEST(SeededScores, SeveralSeedsAreJudgedByTheirMeans) {
  SeededScores scores;
  scores.add(reading_of(1, 3));
  scores.add(reading_of(2, 4));
  scores.add(reading_of(3, 5));
  EXPECT_STREQ(scores.over(), "seeds");
  const Interval found = scores.over_seeds(bits_of), want = mean_interval(std::vector<double>{2, 3, 4});
  EXPECT_EQ(found.count, 3);
  EXPECT_DOUBLE_EQ(found.mean, want.mean);
  EXPECT_DOUBLE_EQ(found.high, want.high);
  EXPECT_EQ(scores.pooled.documents.size(), 6u);
}

}  // namespace
}  // namespace pmnet
