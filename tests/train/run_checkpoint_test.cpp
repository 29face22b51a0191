#include "train/run_checkpoint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "support/errors.h"
#include "support/files.h"
#include "support/fixture.h"
#include "support/run_files.h"
#include "train/run_folder.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

// A trainer whose checkpoints go to a folder of its own.
struct Saver {
  TemporaryFolder folder;
  Fixture fixture = load_fixture("base");
  std::unique_ptr<LanguageModel> model = model_of(fixture);
  ProcessGroup group;
  Trainer trainer{*model, TrainConfig{}, group};
  RunRecord record;

  fs::path checkpoints() const { return folder / "ckpt"; }
  void save(int64_t step, std::optional<ModelState> carried = std::nullopt) {
    trainer.progress().step = step;
    save_run_checkpoint(checkpoint_folder(checkpoints(), step), *model, fixture.config, trainer.optimizer(), carried,
                        trainer.progress(), record);
  }
};

std::optional<RunCheckpoint> newest(const fs::path& checkpoints, std::vector<std::string>* warnings = nullptr) {
  return newest_checkpoint(checkpoints, [&](const std::string& text) {
    if (warnings) warnings->push_back(text);
  });
}

TEST(RunCheckpoint, HoldsTheWholeState) {
  Saver saver;
  saver.record = {.settings = "settings",
                  .data_fingerprint = "data",
                  .world = 2,
                  .threads = 3,
                  .validation_bpb = 1.0 / 3,
                  .best_bpb = 0.1,
                  .best_step = 5,
                  .evaluation_pending = true,
                  .extra = {{"stage", 3}}};
  TrainerProgress& progress = saver.trainer.progress();
  progress.bytes = 123;
  progress.skipped = 4;
  progress.not_finite_in_a_row = 2;
  progress.spikes.add(1.0 / 7, 2.0 / 7, 8);
  at::NoGradGuard no_grad;
  saver.trainer.optimizer().visit_state([](const std::string&, Tensor& tensor) { tensor.normal_(); });
  ModelState carried = saver.model->initial_state(3);
  carried.visit([](const std::string&, Tensor& tensor) {
    if (tensor.is_floating_point())
      tensor.normal_();
    else
      tensor.random_();
  });
  saver.save(7, carried);

  const RunCheckpoint found = newest(saver.checkpoints()).value();
  EXPECT_EQ(found.step, 7);
  EXPECT_EQ(found.progress.bytes, 123);
  EXPECT_EQ(found.progress.skipped, 4);
  EXPECT_EQ(found.progress.not_finite_in_a_row, 2);
  EXPECT_EQ(found.progress.spikes.losses, progress.spikes.losses);
  EXPECT_EQ(found.progress.spikes.norms, progress.spikes.norms);
  EXPECT_EQ(found.record.settings, "settings");
  EXPECT_EQ(found.record.validation_bpb, 1.0 / 3);
  EXPECT_EQ(found.record.best_step, 5);
  EXPECT_TRUE(found.record.evaluation_pending);
  EXPECT_EQ(found.record.extra, nlohmann::json({{"stage", 3}}));

  AdamW restored(saver.model->named_parameters(), {});
  load_optimizer(found.folder, restored);
  std::map<std::string, Tensor> expected;
  saver.trainer.optimizer().visit_state([&](const std::string& name, Tensor& t) { expected[name] = t; });
  restored.visit_state(
      [&](const std::string& name, Tensor& t) { EXPECT_TRUE(at::equal(t, expected.at(name))) << name; });
  ModelState loaded = load_carried(found.folder, *saver.model).value();
  std::vector<Tensor> before;
  carried.visit([&](const std::string&, Tensor& t) { before.push_back(t); });
  size_t next = 0;
  loaded.visit([&](const std::string& name, Tensor& t) { EXPECT_TRUE(at::equal(t, before.at(next++))) << name; });

  const LoadedModel model = load_model(found.folder);  // a checkpoint is a model folder
  EXPECT_TRUE(model.warnings.empty());
  EXPECT_EQ(model_hash(*model.model), model_hash(*saver.model));
}

TEST(RunCheckpoint, EveryDamagedByteIsNoticedAndThePreviousOneTaken) {
  Saver saver;
  saver.save(10);
  saver.save(25);
  const fs::path folder = checkpoint_folder(saver.checkpoints(), 25);
  std::mt19937_64 random(1);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string whole = whole_file(entry.path());
    for (int trial = 0; trial < 12; ++trial) {
      std::string damaged = whole;
      if (trial % 3 == 0)
        damaged.resize(random() % whole.size());
      else
        damaged[random() % whole.size()] ^= static_cast<char>(1 << random() % 8);
      std::ofstream(entry.path(), std::ios::binary) << damaged;
      std::vector<std::string> warnings;
      const auto found = newest(saver.checkpoints(), &warnings);
      // A changed blank between the values of trainer.json is no damage.
      if (found->step == 25 && entry.path().filename() == "trainer.json") continue;
      EXPECT_EQ(found->step, 10) << entry.path();
      ASSERT_EQ(warnings.size(), 2u);
      EXPECT_NE(warnings[0].find("step-00000025"), std::string::npos) << warnings[0];
      EXPECT_NE(warnings[1].find("15 steps are lost"), std::string::npos) << warnings[1];
    }
    fs::remove(entry.path());
    EXPECT_EQ(newest(saver.checkpoints())->step, 10) << entry.path();
    std::ofstream(entry.path(), std::ios::binary) << whole;
  }
  EXPECT_EQ(newest(saver.checkpoints())->step, 25);
  fs::remove(folder / "trainer.json");
  fs::remove(checkpoint_folder(saver.checkpoints(), 10) / "model.safetensors");
  EXPECT_NE(user_error_of([&] { newest(saver.checkpoints()); }).find("none of its 2 checkpoints is complete"),
            std::string::npos);
}

TEST(RunCheckpoint, ARenamedFolderIsNotTakenForTheStepOfItsName) {
  Saver saver;
  saver.save(10);
  saver.save(25);
  fs::rename(checkpoint_folder(saver.checkpoints(), 25), checkpoint_folder(saver.checkpoints(), 40));
  std::vector<std::string> warnings;
  EXPECT_EQ(newest(saver.checkpoints(), &warnings)->step, 10);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("holds step 25"), std::string::npos) << warnings[0];
}

TEST(RunCheckpoint, AnotherFormatIsRefused) {
  Saver saver;
  saver.save(1);
  const fs::path file = checkpoint_folder(saver.checkpoints(), 1) / "trainer.json";
  auto object = nlohmann::json::parse(whole_file(file));
  object["format"] = 99;
  std::ofstream(file) << object.dump();
  EXPECT_NE(user_error_of([&] { open_run_checkpoint(file.parent_path()); }), "(no error)");
}

TEST(RunCheckpoint, TheNewestAndTheBestAreKept) {
  Saver saver;
  for (const int64_t step : {1, 2, 3, 4, 5, 100'000'000}) saver.save(step);
  fs::create_directory(saver.checkpoints() / "step-notes");
  prune_checkpoints(saver.checkpoints(), 2, {3});
  EXPECT_EQ(checkpoint_steps(saver.checkpoints()), (std::vector<int64_t>{100'000'000, 5, 3}));
  prune_checkpoints(saver.checkpoints(), 1, {});
  EXPECT_EQ(checkpoint_steps(saver.checkpoints()), std::vector<int64_t>{100'000'000});
  EXPECT_TRUE(fs::exists(saver.checkpoints() / "step-notes"));
}

// A child saves and prunes without pause and says which steps are done; it is killed at a random moment.
void expect_nothing_lost(int kills) {
  Saver saver;
  saver.save(1);
  std::mt19937_64 random(7);
  int64_t acknowledged = 1;
  for (int kill_number = 0; kill_number < kills; ++kill_number) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      for (int64_t step = acknowledged + 1;; ++step) {
        saver.save(step);
        prune_checkpoints(saver.checkpoints(), 2, {});
        if (::write(pipe_ends[1], &step, sizeof step) != sizeof step) ::_exit(1);
      }
    }
    ::close(pipe_ends[1]);
    ::usleep(static_cast<useconds_t>(random() % 60'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (int64_t step = 0; ::read(pipe_ends[0], &step, sizeof step) == sizeof step;) acknowledged = step;
    ::close(pipe_ends[0]);
    clean_checkpoints(saver.checkpoints());
    std::vector<std::string> warnings;
    const auto found = newest(saver.checkpoints(), &warnings);
    ASSERT_TRUE(found && warnings.empty()) << kill_number;
    ASSERT_GE(found->step, acknowledged) << kill_number;
    acknowledged = found->step;
    for (const fs::directory_entry& entry : fs::directory_iterator(saver.checkpoints()))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
  }
}

TEST(RunCheckpoint, KillsWhileSavingLoseNothing) { expect_nothing_lost(25); }
TEST(RunCheckpointSlow, AHundredKillsWhileSavingLoseNothing) { expect_nothing_lost(100); }

TEST(RunFolder, HasOneTrainerAtATime) {
  const TemporaryFolder folder;
  {
    const RunFolder first(folder / "run", false);
    const std::string error = user_error_of([&] { RunFolder(folder / "run", false); });
    EXPECT_NE(error.find(fmt::format("process {} since", ::getpid())), std::string::npos) << error;
  }
  const RunFolder second(folder / "run", false);  // what the first left is recovered
}

TEST(RunFolder, OnlyOneOfManyRacersWins) {
  const TemporaryFolder folder;
  for (int race = 0; race < 10; ++race) {
    const fs::path run = folder / std::to_string(race);
    std::vector<pid_t> racers;
    int start[2];
    ASSERT_EQ(::pipe(start), 0);
    for (int i = 0; i < 5; ++i) {
      racers.push_back(::fork());
      if (racers.back() != 0) continue;
      char go = 0;
      ::close(start[1]);
      if (::read(start[0], &go, 1) != 0) ::_exit(2);
      try {
        const RunFolder mine(run, false);
        ::usleep(100'000);
        ::_exit(0);
      } catch (const UserError&) {
        ::_exit(1);
      }
    }
    ::close(start[1]);
    ::close(start[0]);
    int winners = 0;
    for (const pid_t racer : racers) {
      int status = 0;
      ::waitpid(racer, &status, 0);
      winners += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    EXPECT_EQ(winners, 1);
  }
}

TEST(RunFolder, RefusesWhatIsNotItsOwn) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "photos");
  std::ofstream(folder / "photos" / "a.jpg") << "x";
  EXPECT_NE(user_error_of([&] { RunFolder(folder / "photos", true); }).find("not a run's"), std::string::npos);
  std::ofstream(folder / "file") << "x";
  EXPECT_NE(user_error_of([&] { RunFolder(folder / "file", true); }).find("--out"), std::string::npos);
  fs::create_directory(folder / "run");
  std::ofstream(folder / "run" / "run.toml") << "";
  EXPECT_NE(user_error_of([&] { RunFolder(folder / "run", false); }).find("--resume"), std::string::npos);
  const RunFolder resumed(folder / "run", true);
}

}  // namespace
}  // namespace pmnet
