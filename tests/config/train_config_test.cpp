#include "config/train_config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <set>

#include "config/train_options.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

TrainConfig sound() {
  TrainConfig config;
  config.preset = "tiny";
  config.inputs = {"a.txt"};
  return config;
}

TEST(TrainConfig, DefaultsAreSoundOnceModelAndDataAreNamed) {
  EXPECT_EQ(sound().problems(), std::vector<std::string>());
  EXPECT_EQ(TrainConfig().problems().size(), 2u);
}

TEST(TrainConfig, EveryProblemIsToldAtOnceByItsKey) {
  TrainConfig config = sound();
  config.preset = "tinny";
  config.inputs.clear();
  config.batch = 6;
  config.accumulation = 4;
  config.context = 1;
  config.steps = config.bytes = 5;
  config.min_lr_ratio = std::numeric_limits<double>::quiet_NaN();
  config.context_schedule = {"100:64", "50:128"};
  config.keep = 0;
  std::string all;
  for (const std::string& problem : config.problems()) all += problem + "\n";
  expect_mentions(
      all, {"did you mean 'tiny'", "data.inputs", "multiple of 1 ranks x train.accumulation 4", "train.context is 1",
            "both set", "optimizer.min_lr_ratio", "'50:128', expected growing", "checkpoint.keep"});
}

TEST(TrainConfig, BatchesMustDivideAmongRanks) {
  TrainConfig config = sound();
  config.batch = 6;
  EXPECT_TRUE(config.problems(3).empty());
  EXPECT_EQ(config.problems(4).size(), 1u);
}

TEST(TrainConfig, StepsFollowFromBytesThroughTheContextSchedule) {
  TrainConfig config = sound();
  EXPECT_EQ(config.total_steps(), TrainConfig::kDefaultSteps);
  config.batch = 2;
  config.context = 100;
  config.bytes = 1001;
  EXPECT_EQ(config.total_steps(), 6);
  config.context_schedule = {"4:1000"};
  EXPECT_EQ(config.total_steps(), 5);  // 4 x 200, then 201 of 2,000
  EXPECT_EQ(config.longest_context(), 1000);
  config.bytes = 800;
  EXPECT_EQ(config.total_steps(), 4);
}

TEST(TrainOptions, TomlHoldsEverything) {
  TrainConfig config = sound();
  config.inputs = {"with \"quotes\" \\ and ü", "b"};
  config.weights = {0.1, 1e-300};
  config.learning_rate = 1.0 / 3;
  config.bytes = 18'800'000'000;
  config.carry = true;
  config.read.split_on = "\n\n\n";
  config.architecture = Architecture::kMamba;
  config.hold_out.by = HoldOut::By::kTail;
  config.memory_embedding_std = 0.5;
  config.residual_init = 0;
  TrainConfig read;
  read_run_text(read, to_toml(config, /*with_help=*/true), "here");
  EXPECT_EQ(read, config);
}

TEST(TrainOptions, OnlyTheKeysOfARunFileChange) {
  const TemporaryFolder folder;
  std::ofstream(folder / "run.toml") << "[train]\nsteps = 77\n[data]\ninputs = \"one.txt\"\n";
  TrainConfig config = sound();
  config.seed = 5;
  read_run_file(config, folder / "run.toml");
  EXPECT_EQ(config.steps, 77);
  EXPECT_EQ(config.inputs, std::vector<std::string>{"one.txt"});
  EXPECT_EQ(config.seed, 5);
}

TEST(TrainOptions, AssignmentsAreWordsOrToml) {
  TrainConfig config;
  set_option(config, parse_assignment("model.preset=3m"));
  set_option(config, parse_assignment("train.bytes=1.5M"));
  set_option(config, parse_assignment("optimizer.lr=3e-4"));
  set_option(config, parse_assignment("data.inputs=[\"a\", 'b']"));
  set_option(config, parse_assignment("data.weights=2"));
  set_option(config, parse_assignment("train.carry=true"));
  EXPECT_EQ(config.preset, "3m");
  EXPECT_EQ(config.bytes, 1'500'000);
  EXPECT_EQ(config.learning_rate, 3e-4);
  EXPECT_EQ(config.inputs, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(config.weights, std::vector<double>{2});
  EXPECT_TRUE(config.carry);
}

TEST(TrainOptions, MistakesAreToldWithASuggestion) {
  TrainConfig config;
  const auto error_of = [&](const std::string& assignment) {
    return user_error_of([&] { set_option(config, parse_assignment(assignment)); });
  };
  expect_mentions(error_of("optimizer.lrr=1"), {"unknown key", "did you mean 'optimizer.lr'"});
  expect_mentions(error_of("steps=1"), {"did you mean 'train.steps'"});
  expect_mentions(error_of("nonsense=1"), {"--print-config"});
  expect_mentions(error_of("train.steps=1.5"), {"train.steps is '1.5', expected an integer"});
  expect_mentions(error_of("train.steps=12abc"), {"an integer"});
  expect_mentions(error_of("train.steps=1e300"), {"an integer"});
  expect_mentions(error_of("train.steps=[1, 2]"), {"train.steps is a list"});
  expect_mentions(error_of("data.hold_out=hsah"), {"auto, hash, tail, path, none", "did you mean 'hash'"});
  expect_mentions(error_of("train.carry=yes"), {"true or false"});
  expect_mentions(error_of("train.steps"), {"key=value"});
  expect_mentions(error_of("data.inputs=[1"), {"--set data.inputs"});
  EXPECT_EQ(config, TrainConfig());

  const std::string several = user_error_of(
      [&] { read_run_text(config, "[train]\nstep = 1\nbatch = \"x\"\n[modle]\npreset = \"3m\"\n", "my.toml"); });
  expect_mentions(several, {"my.toml, line 2", "did you mean 'train.steps'", "my.toml, line 3", "model.preset"});
  expect_mentions(user_error_of([&] { read_run_text(config, "a = = 1", "my.toml"); }), {"my.toml, line 1, column"});
  expect_mentions(user_error_of([&] { read_run_text(config, "[:x]", "my.toml"); }), {"my.toml, line 1, column"});
}

TEST(TrainOptions, KeysAndFlagsAreUnique) {
  std::set<std::string> names;
  for (const TrainOption& option : train_options()) {
    EXPECT_TRUE(names.insert(option.key).second) << option.key;
    if (!option.flag.empty()) {
      EXPECT_TRUE(names.insert(option.flag).second) << option.flag;
    }
  }
}

TEST(TrainOptions, WhatAResumedRunMustKeepIsCompared) {
  TrainConfig saved = sound(), now = sound();
  now.steps = 5000;
  now.log_every = 1;
  EXPECT_TRUE(fixed_differences(saved, now).empty());
  now.seed = 7;
  ASSERT_EQ(fixed_differences(saved, now).size(), 1u);
  EXPECT_EQ(fixed_differences(saved, now)[0], "train.seed is 0 there and 7 here");
  EXPECT_EQ(chosen_options(now).size(), 5u);
}

TEST(Recipes, EveryOneIsSoundOnceItHasData) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(PMNET_SOURCE_DIR) / "recipes" / "train")) {
    TrainConfig config;
    read_run_file(config, entry.path());
    EXPECT_EQ(config.problems().size(), 1u) << entry.path() << ": " << config.problems().back();
    config.inputs = {"text"};
    EXPECT_TRUE(config.problems().empty()) << entry.path() << ": " << config.problems().front();
    ++count;
  }
  EXPECT_GE(count, 4);
}

TEST(Recipes, ThePapersSizes) {
  const auto read = [](const char* name) {
    TrainConfig config;
    read_run_file(config, std::filesystem::path(PMNET_SOURCE_DIR) / "recipes" / "train" / name);
    return config;
  };
  const TrainConfig small = read("paper-30m.toml"), large = read("paper-119m.toml");
  EXPECT_EQ(small.context, 2048);
  EXPECT_EQ(small.bytes, 500'000'000);
  EXPECT_EQ(large.context, 10'240);
  EXPECT_EQ(large.bytes, 18'800'000'000);
}

}  // namespace
}  // namespace pmnet
