// The rows and batches of the synthetic tasks: layout, ranges, determinism; and that rows are scored as one pass would.
#include "experiments/framework/task.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "experiments/copy/copy_task.h"
#include "experiments/mqar/mqar_task.h"
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

MqarTask mqar_task(int64_t questions = 1) {
  MqarTask task;
  task.keys = 5;
  task.values = 7;
  task.fillers = 3;
  task.questions = questions;
  return task;
}

std::shared_ptr<PMNet> byte_model() {
  PmnetConfig config = small_config();
  config.vocab_size = 384;
  config.bos_token_id = 254;
  config.eos_token_id = 255;
  return small_model(config);
}

TEST(MqarTaskTest, ARowIsPairsFillerQuestionAnswer) {
  const MqarTask task = mqar_task();
  std::set<int64_t> distances, fact_counts;
  for (int64_t step = 0; step < 40; ++step) {
    const Batch batch = make_task_batch(task, {{1, 3}, 2, 6, false}, 9, step, 4);
    ASSERT_EQ(batch.rows, 4);
    for (int64_t row = 0; row < batch.rows; ++row) {
      const std::vector<int64_t> text = row_of(batch, row);
      ASSERT_EQ(text[0], task.bos);
      std::map<int64_t, int64_t> facts;
      size_t at = 1;
      for (; text[at] >= task.kFirstKey && text[at] < task.kFirstKey + task.keys; at += 2) {
        EXPECT_TRUE(facts.emplace(text[at], text[at + 1]).second) << "keys are distinct";
        EXPECT_TRUE(text[at + 1] >= task.kFirstValue && text[at + 1] < task.kFirstValue + task.values);
      }
      const size_t start = at;
      while (text[at] < task.kFirstKey) EXPECT_LT(text[at++], task.kFirstFiller + task.fillers);
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

TEST(MqarTaskTest, EveryPairCanBeAskedInOneRow) {
  const MqarTask task = mqar_task(/*questions=*/0);
  for (uint64_t key = 0; key < 20; ++key) {
    const TaskRow row = task.make_row({4, 10}, key);
    EXPECT_EQ(std::ssize(row.ids), task.row_size({4, 10}));
    std::map<int64_t, int64_t> facts, asked;
    for (size_t i = 1; i < 9; i += 2) facts[row.ids[i]] = row.ids[i + 1];
    for (size_t i = 19; i < row.ids.size(); i += 2) {
      EXPECT_FALSE(row.graded[i]);
      EXPECT_TRUE(row.graded[i + 1]);
      asked[row.ids[i]] = row.ids[i + 1];
    }
    EXPECT_EQ(asked, facts);
    EXPECT_EQ(std::count(row.graded.begin(), row.graded.end(), 1), 4);
  }
}

TEST(TaskStageTest, LogarithmicLengthsStayInTheRangeAndFavourShortOnes) {
  const TaskStage stage{{1}, 4, 260, true};
  int64_t shorter = 0, least = 1000, most = 0;
  for (uint64_t key = 0; key < 1280; ++key) {
    const int64_t length = stage.draw_cell(key).length;
    least = std::min(least, length);
    most = std::max(most, length);
    shorter += length < 20 ? 1 : 0;
  }
  EXPECT_EQ(least, 4);
  EXPECT_LE(most, 260);
  EXPECT_GT(most, 200);
  EXPECT_NEAR(static_cast<double>(shorter) / 1280, 0.5, 0.06) << "16 of 257 is half way in factors";
}

TEST(TaskBatchTest, BatchesAreAFunctionOfSeedAndStep) {
  const TaskStage stage{{1, 2}, 0, 30, false};
  const MqarTask task = mqar_task();
  const Batch once = make_task_batch(task, stage, 5, 3, 8), again = make_task_batch(task, stage, 5, 3, 8);
  EXPECT_EQ(once.ids, again.ids);
  EXPECT_EQ(once.hash, again.hash);
  EXPECT_NE(once.hash, make_task_batch(task, stage, 6, 3, 8).hash);
  EXPECT_NE(once.ids, make_task_batch(task, stage, 5, 4, 8).ids);
}

TEST(TaskBatchTest, DistinctRowsReturn) {
  const TaskStage stage{{1}, 6, 6, false};
  const CopyTask task;
  const Batch first = make_task_batch(task, stage, 1, 0, 4, 8), second = make_task_batch(task, stage, 1, 1, 4, 8);
  EXPECT_NE(first.ids, second.ids);
  EXPECT_EQ(first.ids, make_task_batch(task, stage, 1, 2, 4, 8).ids);
  EXPECT_NE(first.ids, make_task_batch(task, stage, 1, 2, 4, 0).ids) << "fresh rows do not";
}

TEST(CopyTaskTest, ARowIsSourceDelimiterSource) {
  CopyTask task;
  task.symbols = 6;
  std::set<int64_t> lengths;
  for (int64_t step = 0; step < 20; ++step) {
    const Batch batch = make_task_batch(task, {{1}, 2, 5, false}, 4, step, 3);
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

// Rows that are read in groups and chunks score as each of them does in a single pass of the model.
TEST(ScoreTask, EqualsOnePassPerRow) {
  class Recorded : public MqarTask {
   public:
    using MqarTask::MqarTask;
    TaskRow make_row(const TaskCell& cell, uint64_t key) const override {
      rows.push_back(MqarTask::make_row(cell, key));
      return rows.back();
    }
    mutable std::vector<TaskRow> rows;
  };
  const auto model = byte_model();
  Recorded task;
  task.questions = 0;
  double last_share = 0;
  const TaskCell cell{3, 1500};  // several chunks
  const TaskScore score = score_task(*model, {}, task, cell, 5, 7, [&](double share) {
    EXPECT_GE(share, last_share);
    last_share = share;
  });
  EXPECT_GT(last_share, 0.5);
  ASSERT_EQ(task.rows.size(), 5u);
  at::NoGradGuard no_grad;
  double loss = 0;
  int64_t right = 0, right_rows = 0;
  for (const TaskRow& row : task.rows) {
    const Tensor logits = model->logits(at::tensor(row.ids, at::kLong).unsqueeze(0))[0];
    const Tensor likeliest = logits.argmax(-1), costs = logits.to(at::kDouble).log_softmax(-1);
    bool all = true;
    for (int64_t t = 1; t < std::ssize(row.ids); ++t) {
      if (!row.graded[static_cast<size_t>(t)]) continue;
      const int64_t answer = row.ids[static_cast<size_t>(t)];
      const bool is_right = likeliest[t - 1].item<int64_t>() == answer;
      right += is_right ? 1 : 0;
      all = all && is_right;
      loss -= costs[t - 1][answer].item<double>();
    }
    right_rows += all ? 1 : 0;
  }
  EXPECT_EQ(score.rows, 5);
  EXPECT_EQ(score.answers, 15);
  EXPECT_EQ(score.right, right);
  EXPECT_EQ(score.right_rows, right_rows);
  EXPECT_NEAR(score.loss, loss / 15, 1e-3);
}

TEST(ScoreTask, AnUntrainedModelIsNearChance) {
  PmnetConfig config = byte_model()->config();
  PMNet model(config, at::kFloat);
  model.initialize(1);
  CopyTask task;
  task.symbols = 4;
  const TaskScore score = score_task(model, {}, task, {1, 12}, 40, 1);
  EXPECT_NEAR(score.loss, std::log(384.0), 0.2) << "all bytes are about equally likely";
  EXPECT_LT(score.accuracy(), 0.4);
  EXPECT_EQ(score.row_accuracy(), 0);
}

}  // namespace
}  // namespace pmnet
