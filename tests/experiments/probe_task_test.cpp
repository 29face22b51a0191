// The rows of the probes: every answer follows from what stands before it, layouts are as described, keys keep their
// values.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "data/stories.h"
#include "experiments/in_context_recall/in_context_recall.h"
#include "experiments/induction/induction.h"
#include "experiments/modular/modular_task.h"
#include "experiments/mqar/mqar.h"
#include "experiments/needle/needle.h"
#include "experiments/selective_copy/selective_copy.h"

namespace pmnet {
namespace {

int64_t count_answers(const TaskRow& row) { return std::count(row.graded.begin(), row.graded.end(), 1); }

// What all tasks have in common; gives how often each answer was asked for.
std::map<int64_t, int64_t> check_rows(const Task& task, const TaskCell& cell, int64_t bos, int64_t rows = 200) {
  std::map<int64_t, int64_t> answers;
  std::set<std::vector<int64_t>> different;
  for (int64_t i = 0; i < rows; ++i) {
    const TaskRow row = task.make_row(cell, static_cast<uint64_t>(i));
    EXPECT_EQ(row.ids, task.make_row(cell, static_cast<uint64_t>(i)).ids) << "a function of the key";
    EXPECT_EQ(row.ids.size(), row.graded.size());
    EXPECT_EQ(std::ssize(row.ids), task.row_size(cell));
    EXPECT_EQ(row.ids.front(), bos);
    EXPECT_GE(count_answers(row), 1);
    for (size_t t = 0; t < row.ids.size(); ++t)
      if (row.graded[t]) answers[row.ids[t]] += 1;
    different.insert(row.ids);
  }
  const int64_t expected = cell.length > 16 ? rows * 9 / 10 : 1;
  EXPECT_GT(std::ssize(different), expected);
  return answers;
}

// Answers are spread evenly, so that the best guess is right as often as chance() says.
void expect_chance(const Task& task, const std::map<int64_t, int64_t>& answers) {
  int64_t all = 0, most = 0;
  for (const auto& [answer, count] : answers) {
    all += count;
    most = std::max(most, count);
  }
  EXPECT_NEAR(static_cast<double>(most) / static_cast<double>(all), task.chance(), 0.35 * task.chance());
}

TEST(ModularTaskTest, AnswersAreRunningSums) {
  for (const int64_t modulus : {2, 3, 5}) {
    ModularTask task;
    task.modulus = modulus;
    for (const TaskCell& cell : {TaskCell{1, 1}, TaskCell{1, 40}, TaskCell{4, 100}}) {
      const auto answers = check_rows(task, cell, task.bos, 400);
      if (cell.length > 1) expect_chance(task, answers);
      for (uint64_t key = 0; key < 50; ++key) {
        const TaskRow row = task.make_row(cell, key);
        EXPECT_EQ(count_answers(row), cell.load);
        int64_t sum = 0, digits = 0;
        for (size_t t = 1; t < row.ids.size(); ++t) {
          if (row.graded[t]) {
            EXPECT_EQ(row.ids[t - 1], ModularTask::kQuestion);
            EXPECT_EQ(row.ids[t], ModularTask::kFirstAnswer + sum % modulus);
          } else if (row.ids[t] != ModularTask::kQuestion) {
            const int64_t digit = row.ids[t] - ModularTask::kFirstDigit;
            EXPECT_TRUE(digit >= 0 && digit < modulus);
            sum += digit;
            digits += 1;
          }
        }
        EXPECT_EQ(digits, cell.length);
        EXPECT_TRUE(row.graded.back()) << "the last question is about all digits";
      }
    }
  }
  EXPECT_EQ(count_answers(ModularTask{}.make_row({8, 20}, 1)), 2) << "short rows have fewer questions";
}

TEST(ModularTaskTest, LongUnevenRowsPreferADigit) {
  ModularTask even, uneven;
  uneven.uneven_from = 1000;
  double widest = 0;
  for (uint64_t key = 0; key < 20; ++key) {
    EXPECT_EQ(uneven.make_row({1, 999}, key).ids, even.make_row({1, 999}, key).ids) << "short rows are as they were";
    const TaskRow row = uneven.make_row({1, 1000}, key);
    const auto ones = static_cast<double>(std::count(row.ids.begin(), row.ids.end(), '1'));
    widest = std::max(widest, std::abs(ones / 1000 - 0.5));
    EXPECT_EQ(row.ids.back() - ModularTask::kFirstAnswer, static_cast<int64_t>(ones) % 2);
  }
  EXPECT_GT(widest, 0.3) << "some rows are nearly all of one digit";
}

TEST(MqarTaskTest, ZoologysRowsAskEveryKeyOnce) {
  MqarTask task;
  task.zoology = true;
  task.keys = 64;
  task.values = 64;
  task.fillers = 1;
  const TaskCell cell{8, 128};
  check_rows(task, cell, task.bos);
  int64_t near = 0, all = 0;
  for (uint64_t key = 0; key < 100; ++key) {
    const TaskRow row = task.make_row(cell, key);
    std::map<int64_t, int64_t> pairs, asked;
    for (size_t t = 1; t < 17; t += 2) EXPECT_TRUE(pairs.emplace(row.ids[t], row.ids[t + 1]).second);
    for (size_t t = 17; t < row.ids.size(); t += 2) {
      if (!row.graded[t + 1]) {
        EXPECT_EQ(row.ids[t] + row.ids[t + 1], 2 * MqarTask::kFirstFiller);
        continue;
      }
      EXPECT_TRUE(asked.emplace(row.ids[t], row.ids[t + 1]).second) << "once each";
      near += t < 17 + 28 ? 1 : 0;
      all += 1;
    }
    EXPECT_EQ(asked, pairs);
  }
  EXPECT_GT(near, all / 2) << "the first quarter of the places has most of the questions";
  EXPECT_LT(near, all);
}

TEST(InductionTaskTest, TheSameSymbolFollowsTheSpecialOne) {
  InductionTask task;
  for (const TaskCell& cell : {TaskCell{1, 4}, TaskCell{1, 64}, TaskCell{4, 64}}) {
    const auto answers = check_rows(task, cell, task.bos, 600);
    if (cell.load == 1 && cell.length > 4) expect_chance(task, answers);
    for (uint64_t key = 0; key < 100; ++key) {
      const TaskRow row = task.make_row(cell, key);
      std::set<int64_t> followers;
      int64_t times = 0;
      for (size_t t = 1; t + 1 < row.ids.size(); ++t) {
        if (row.ids[t] != task.symbols - 1) continue;
        followers.insert(row.ids[t + 1]);
        EXPECT_EQ(row.graded[t + 1] != 0, times++ > 0) << "all but the first time";
      }
      EXPECT_EQ(followers.size(), 1u);
      EXPECT_LT(*followers.begin(), task.symbols - 1);
      EXPECT_TRUE(row.graded.back());
      EXPECT_LE(count_answers(row), cell.load);
    }
  }
}

TEST(SelectiveCopyTaskTest, WhatIsNotBlankIsCopiedInOrder) {
  SelectiveCopyTask task;
  const TaskCell cell{5, 40};
  expect_chance(task, check_rows(task, cell, task.bos, 400));
  for (uint64_t key = 0; key < 100; ++key) {
    const TaskRow row = task.make_row(cell, key);
    std::vector<int64_t> shown, answers;
    for (size_t t = 1; t < row.ids.size(); ++t) {
      if (row.graded[t])
        answers.push_back(row.ids[t]);
      else if (row.ids[t] < task.symbols - 2)
        shown.push_back(row.ids[t]);
    }
    EXPECT_EQ(shown.size(), 5u);
    EXPECT_EQ(answers, shown);
    EXPECT_EQ(row.ids[row.ids.size() - 6], task.symbols - 1) << "the mark";
  }
}

TEST(InContextRecallTaskTest, AKeyKeepsItsValueAndIsGradedFromTheSecondTimeOn) {
  InContextRecallTask task;
  const TaskCell cell{3, 64};
  expect_chance(task, check_rows(task, cell, task.bos, 400));
  std::set<int64_t> all_keys;
  for (uint64_t key = 0; key < 100; ++key) {
    const TaskRow row = task.make_row(cell, key);
    std::map<int64_t, int64_t> known;
    for (size_t t = 1; t < row.ids.size(); t += 2) {
      EXPECT_FALSE(row.graded[t]);
      const auto [found, first] = known.emplace(row.ids[t], row.ids[t + 1]);
      EXPECT_EQ(row.graded[t + 1] != 0, !first);
      EXPECT_EQ(found->second, row.ids[t + 1]);
      all_keys.insert(row.ids[t]);
    }
    EXPECT_LE(std::ssize(known), cell.load);
  }
  EXPECT_EQ(std::ssize(all_keys), task.keys) << "rows with few keys teach every key";
  EXPECT_EQ(*all_keys.rbegin(), task.keys - 1);
}

TEST(MqarSettingsTest, ZoologysCellsAreOpenedOneAfterTheOther) {
  MqarSettings settings;
  settings.gaps = false;
  settings.task.keys = 16;
  settings.lengths = {64};
  settings.zoology_pairs = {2, 4, 8, 16};
  const std::vector<Course> courses = settings.courses();
  ASSERT_EQ(courses.size(), 1u);
  ASSERT_EQ(courses[0].stages.size(), 3u);
  EXPECT_EQ(courses[0].stages[0].cells, (std::vector<TaskCell>{{2, 32}, {4, 64}}));
  EXPECT_EQ(courses[0].stages[1].hardest(), (TaskCell{8, 128}));
  EXPECT_EQ(courses[0].stages[2].cells, courses[0].cells);
  settings.zoology_pairs = {4};
  EXPECT_EQ(settings.courses()[0].stages.size(), 1u);
}

TEST(NeedleTaskTest, TheQuestionIsAnsweredByOneNeedleOfTheText) {
  NeedleTask task;
  task.text = std::make_shared<std::string>(make_story({}, 1) + make_story({}, 2));
  const TaskCell cell{3, 500};
  expect_chance(task, check_rows(task, cell, task.bos, 400));
  for (uint64_t key = 0; key < 50; ++key) {
    const TaskRow row = task.make_row(cell, key);
    std::string written, number;
    for (size_t t = 1; t < row.ids.size(); ++t) (row.graded[t] ? number : written) += static_cast<char>(row.ids[t]);
    ASSERT_EQ(number.size(), 3u);
    const std::string word = written.substr(written.rfind("number for ") + 11, 5);
    EXPECT_TRUE(written.ends_with(NeedleTask::question(word)));
    EXPECT_NE(written.find(NeedleTask::needle(word, number)), std::string::npos) << written;
    const std::string before = NeedleTask::needle(word, "").substr(0, NeedleTask::needle(word, "").size() - 2);
    EXPECT_EQ(written.find(before), written.rfind(before)) << "a word has one number";
  }
}

TEST(NeedleTaskTest, AroundAShortTextStandTheEndsOfTheSentences) {
  NeedleTask task;
  task.text = std::make_shared<std::string>(make_story({}, 1));
  task.digits = 1;
  for (const int64_t load : {1, 2})
    for (const int64_t length : {0, 30, 60, 150}) {
      const TaskCell cell{load, length};
      check_rows(task, cell, task.bos, 20);
      const TaskRow row = task.make_row(cell, 7);
      const std::string bytes(row.ids.begin() + 1, row.ids.end() - 1);
      const std::string word = bytes.substr(bytes.find(" is: ") - 5, 5);  // of the first needle
      const std::string ask = NeedleTask::question(load == 1 ? word : bytes.substr(bytes.rfind(" mentioned") - 5, 5));
      EXPECT_TRUE(bytes.ends_with(ask.substr(static_cast<size_t>(NeedleTask::question_cut(cell))))) << bytes;
      EXPECT_EQ(NeedleTask::question_cut(cell) == 0, length == 150);
      const bool whole = bytes.find(" One of the special magic") != std::string::npos;
      EXPECT_EQ(whole, NeedleTask::needle_cut(cell) == 0) << bytes;
    }
}

}  // namespace
}  // namespace pmnet
