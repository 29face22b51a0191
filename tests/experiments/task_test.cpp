// The batches of the synthetic tasks: layout, ranges, determinism; and that streams are scored as one pass would.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "experiments/copy/copy_task.h"
#include "experiments/recall/recall_task.h"
#include "support/small_model.h"

namespace pmnet {
namespace {

std::vector<int64_t> row_of(const Batch& batch, int64_t row) {
  const auto first = batch.ids.begin() + row * (batch.context + 1);
  return {first, first + batch.lengths[row] + 1};
}

std::vector<int64_t> scored_positions(const Batch& batch, int64_t row) {
  std::vector<int64_t> positions;
  for (int64_t t = 0; t < batch.context; ++t)
    if (batch.loss_mask[row * batch.context + t]) positions.push_back(t);
  return positions;
}

RecallTask recall_task() {
  RecallTask task;
  task.keys = 5;
  task.values = 7;
  task.fillers = 3;
  return task;
}

TEST(RecallTaskTest, ARowIsFactsFillerQuestionAnswer) {
  const RecallTask task = recall_task();
  std::set<int64_t> distances, fact_counts;
  for (int64_t step = 0; step < 40; ++step) {
    const Batch batch = make_recall_batch(task, {{1, 3}, 2, 6, false}, 9, step, 4);
    ASSERT_EQ(batch.rows, 4);
    for (int64_t row = 0; row < batch.rows; ++row) {
      const std::vector<int64_t> text = row_of(batch, row);
      ASSERT_EQ(text[0], task.bos);
      std::map<int64_t, int64_t> facts;
      size_t at = 1;
      for (; text[at] >= 'A' && text[at] < 'A' + task.keys; at += 2) {
        EXPECT_TRUE(facts.emplace(text[at], text[at + 1]).second) << "keys are distinct";
        EXPECT_TRUE(text[at + 1] >= '0' && text[at + 1] < '0' + task.values);
      }
      const size_t start = at;
      while (text[at] >= 'a') EXPECT_LT(text[at++], 'a' + task.fillers);
      distances.insert(static_cast<int64_t>(at - start));
      fact_counts.insert(static_cast<int64_t>(facts.size()));
      ASSERT_EQ(at + 2, text.size());
      ASSERT_TRUE(facts.contains(text[at]));
      EXPECT_EQ(text[at + 1], facts[text[at]]);
      EXPECT_EQ(scored_positions(batch, row), std::vector<int64_t>{batch.lengths[row] - 1}) << "the answer alone";
    }
  }
  EXPECT_EQ(distances, (std::set<int64_t>{2, 3, 4, 5, 6}));
  EXPECT_EQ(fact_counts, (std::set<int64_t>{1, 3}));
}

TEST(RecallTaskTest, LogarithmicDistancesStayInTheRangeAndFavourShortOnes) {
  const int64_t rows = 64;
  int64_t shorter = 0, least = 1000, most = 0;
  for (int64_t step = 0; step < 20; ++step) {
    const Batch batch = make_recall_batch(recall_task(), {{1}, 4, 260, true}, 1, step, rows);
    for (const int64_t length : batch.lengths) {
      const int64_t distance = length - 4;  // BOS, key, value, key
      least = std::min(least, distance);
      most = std::max(most, distance);
      shorter += distance < 20 ? 1 : 0;
    }
  }
  EXPECT_EQ(least, 4);
  EXPECT_LE(most, 260);
  EXPECT_GT(most, 200);
  EXPECT_NEAR(static_cast<double>(shorter) / (20 * rows), 0.5, 0.06) << "16 of 257 is half way in factors";
}

TEST(RecallTaskTest, BatchesAreAFunctionOfSeedAndStep) {
  const RecallRange range{{1, 2}, 0, 30, false};
  const Batch once = make_recall_batch(recall_task(), range, 5, 3, 8),
              again = make_recall_batch(recall_task(), range, 5, 3, 8);
  EXPECT_EQ(once.ids, again.ids);
  EXPECT_EQ(once.hash, again.hash);
  EXPECT_NE(once.hash, make_recall_batch(recall_task(), range, 6, 3, 8).hash);
  EXPECT_NE(once.ids, make_recall_batch(recall_task(), range, 5, 4, 8).ids);
}

// A score at several distances is the score of each alone, whatever the chunks: forks leave the streams as they were.
TEST(RecallTaskTest, DistancesAndChunksDoNotInfluenceEachOther) {
  PmnetConfig config = small_config();
  config.vocab_size = 384;
  config.bos_token_id = 254;
  config.eos_token_id = 255;
  const auto model = small_model(config);
  RecallQuestion question;
  question.facts = 2;
  question.streams = 6;
  question.distances = {0, 7, 40};
  question.chunk = 16;
  const RecallScore together = score_recall(*model, {}, recall_task(), question);
  question.chunk = 5;
  for (size_t i = 0; i < 3; ++i) {
    RecallQuestion alone = question;
    alone.distances = {question.distances[i]};
    const RecallScore score = score_recall(*model, {}, recall_task(), alone);
    EXPECT_EQ(score.right[0], together.right[i]);
    EXPECT_NEAR(score.loss[0], together.loss[i], 1e-4);
  }
}

TEST(CopyTaskTest, ARowIsSourceDelimiterSource) {
  CopyTask task;
  task.symbols = 6;
  std::set<int64_t> lengths;
  for (int64_t step = 0; step < 20; ++step) {
    const Batch batch = make_copy_batch(task, 2, 5, 4, step, 3);
    for (int64_t row = 0; row < batch.rows; ++row) {
      const std::vector<int64_t> text = row_of(batch, row);
      const int64_t N = static_cast<int64_t>(text.size() - 2) / 2;
      lengths.insert(N);
      ASSERT_EQ(static_cast<int64_t>(text.size()), 2 * N + 2);
      EXPECT_EQ(text[0], task.bos);
      EXPECT_EQ(text[N + 1], task.delimiter);
      EXPECT_TRUE(std::equal(text.begin() + 1, text.begin() + 1 + N, text.begin() + N + 2));
      EXPECT_LT(*std::max_element(text.begin() + 1, text.begin() + 1 + N), task.symbols);
      std::vector<int64_t> expected(N);
      std::iota(expected.begin(), expected.end(), N + 1);  // from the delimiter on: the copy and nothing else
      EXPECT_EQ(scored_positions(batch, row), expected);
    }
  }
  EXPECT_EQ(lengths, (std::set<int64_t>{2, 3, 4, 5}));
}

TEST(CopyTaskTest, BatchesAreAFunctionOfSeedAndStep) {
  const Batch once = make_copy_batch({}, 1, 9, 2, 7, 4);
  EXPECT_EQ(once.hash, make_copy_batch({}, 1, 9, 2, 7, 4).hash);
  EXPECT_NE(once.hash, make_copy_batch({}, 1, 9, 3, 7, 4).hash);
  EXPECT_NE(once.ids, make_copy_batch({}, 1, 9, 2, 8, 4).ids);
}

// The loss of a copy is what training would report for the same texts.
TEST(CopyTaskTest, AnUntrainedModelIsNearChance) {
  PmnetConfig config = small_config();
  config.vocab_size = 384;
  config.bos_token_id = 254;
  config.eos_token_id = 255;
  PMNet model(config, at::kFloat);
  model.initialize(1);
  CopyTask task;
  task.symbols = 4;
  const CopyScore score = score_copy(model, task, 12, 40, 1);
  EXPECT_NEAR(score.loss, std::log(384.0), 0.2) << "all bytes are about equally likely";
  EXPECT_LT(score.token_accuracy, 0.4);
  EXPECT_EQ(score.sequence_accuracy, 0);
}

}  // namespace
}  // namespace pmnet
