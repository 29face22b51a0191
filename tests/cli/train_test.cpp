// The whole program: processes, signals, exit codes. What one process can show is tested in tests/train.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <thread>

#include "config/train_options.h"
#include "report/metrics_log.h"
#include "support/files.h"
#include "support/program.h"
#include "support/run_files.h"
#include "train/run_checkpoint.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// The program started with its output in a file.
class Process {
 public:
  Process(const std::vector<std::string>& arguments, const fs::path& output,
          const std::map<std::string, std::string>& environment = {})
      : output_(output), pid_(::fork()) {
    if (pid_ != 0) return;
    const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(file, 1);
    ::dup2(file, 2);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Process() {
    if (!ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  void signal(int number) const { ::kill(pid_, number); }
  // The exit code, 128 + signal when one ended it, -1 when it is still there after the time.
  int wait(std::chrono::seconds time) {
    for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        ended_ = true;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      std::this_thread::sleep_for(20ms);
    }
    return -1;
  }
  std::string output() const { return whole_file(output_); }

 private:
  fs::path output_;
  pid_t pid_;
  bool ended_ = false;
};

struct Program : RunFiles {
  std::vector<std::string> arguments(const fs::path& out, const std::vector<std::string>& more = {}) {
    std::ofstream(folder / "run.toml") << to_toml(config, /*with_help=*/true);
    std::vector<std::string> list{PMNET_PROGRAM, "train",     "--recipe", (folder / "run.toml").string(),
                                  "--out",       out.string()};
    list.insert(list.end(), more.begin(), more.end());
    return list;
  }
  int run(const fs::path& out, const std::vector<std::string>& more = {}) {
    Process process(arguments(out, more), folder / "output");
    const int code = process.wait(120s);
    output = process.output();
    return code;
  }
  // Two ranks; gives both exit codes.
  std::pair<int, int> run_two(const fs::path& out, const std::vector<std::string>& more = {}) {
    auto ranks = start_two(out, more);
    const int first = ranks[0]->wait(120s), second = ranks[1]->wait(60s);
    output = ranks[0]->output() + ranks[1]->output();
    return {first, second};
  }
  std::vector<std::unique_ptr<Process>> start_two(const fs::path& out, const std::vector<std::string>& more = {}) {
    static int port = 30'000 + static_cast<int>(::getpid() % 10'000);
    ++port;
    std::vector<std::unique_ptr<Process>> ranks;
    for (const char* rank : {"0", "1"})
      ranks.push_back(
          std::make_unique<Process>(arguments(out, more), folder / (std::string("output") + rank),
                                    std::map<std::string, std::string>{{"RANK", rank},
                                                                       {"WORLD_SIZE", "2"},
                                                                       {"MASTER_ADDR", "127.0.0.1"},
                                                                       {"MASTER_PORT", std::to_string(port)},
                                                                       {"OMP_NUM_THREADS", "1"}}));
    return ranks;
  }
  std::string output;
};

int64_t lines_of(const fs::path& file) {
  const std::string text = whole_file(file);
  return std::count(text.begin(), text.end(), '\n');
}

bool wait_for_steps(const fs::path& out, int64_t steps) {
  for (int i = 0; i < 3000; ++i) {
    if (lines_of(out / "metrics.jsonl") >= steps) return true;
    std::this_thread::sleep_for(20ms);
  }
  return false;
}

TEST(Train, SignalsStopItWithinSecondsAndNothingIsLost) {
  Program program;
  program.config.steps = 1'000'000;
  const fs::path out = program.folder / "run";
  Process process(program.arguments(out), program.folder / "output");
  ASSERT_TRUE(wait_for_steps(out, 3)) << process.output();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(20s), 0) << process.output();
  EXPECT_NE(process.output().find("--resume"), std::string::npos) << process.output();
  const std::vector<int64_t> steps = checkpoint_steps(out / "ckpt");
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(lines_of(out / "metrics.jsonl"), steps[0]);

  EXPECT_EQ(program.run(out, {"--resume", "--steps", std::to_string(steps[0] + 2)}), 0) << program.output;
  EXPECT_EQ(lines_of(out / "metrics.jsonl"), steps[0] + 2 + 1) << "and one line of the last validation";

  Process twice(program.arguments(program.folder / "twice"), program.folder / "output2");
  ASSERT_TRUE(wait_for_steps(program.folder / "twice", 1));
  twice.signal(SIGINT);
  twice.signal(SIGTERM);  // a duplicate
  EXPECT_EQ(twice.wait(20s), 0) << twice.output();
  EXPECT_NE(twice.output().find("stopping after this step; press again to exit at once"), std::string::npos);
  EXPECT_EQ(checkpoint_steps(program.folder / "twice" / "ckpt").size(), 1u);
}

TEST(Train, ExitCodesAndMessagesOfMistakes) {
  Program program;
  const std::string out = (program.folder / "run").string();
  expect_user_error("train --set optimizer.lrr=1 --out " + out, "did you mean 'optimizer.lr'");
  expect_user_error("train --prest tiny --out " + out, "did you mean '--preset'");
  expect_user_error("train --preset tiny --data /no/such/file --out " + out, "/no/such/file");
  expect_user_error(fmt::format("train --preset tiny --data {}", program.config.inputs[0]), "--out");
  expect_user_error(fmt::format("train --preset tiny --data {0} --out {0}/run", program.config.inputs[0]),
                    "Not a directory");
  EXPECT_FALSE(fs::exists(program.folder / "run" / "run.toml"));
  expect_user_error("train --resume --out " + out, "there is no run to resume");
  expect_user_error("train --recipe cpu-minute --out " + out, "neither a file nor a recipe 'cpu-minute'");
  const ProgramResult printed = run_program("train --preset 3m --lr 0.5 --carry --print-config");
  EXPECT_EQ(printed.exit_code, 0);
  TrainConfig read, expected;
  read_run_text(read, printed.output, "printed");
  expected.preset = "3m";
  expected.learning_rate = 0.5;
  expected.carry = true;
  EXPECT_EQ(read, expected) << "what is printed is a run file";
}

TEST(Train, ReadsTextLikeTheOtherCommands) {
  const ProgramResult printed = run_program(
      "train --split-on '\\n\\n' --prompt-field q --completion-field a --skip-bad --arch mamba --print-config");
  TrainConfig read, expected;
  read_run_text(read, printed.output, "printed");
  expected.read.split_on = "\n\n";
  expected.read.prompt_field = "q";
  expected.read.completion_field = "a";
  expected.read.skip_bad_records = true;
  expected.architecture = Architecture::kMamba;
  EXPECT_EQ(read, expected) << printed.output;
  expect_user_error("train --split-on '\\q' --print-config", "--split-on '\\q' has an unknown escape");
  expect_user_error("train --arch mambo --print-config", "did you mean 'mamba'?");
}

TEST(Train, DryRunEstimatesAndExportTakesTheModel) {
  Program program;
  program.config.steps = 4;
  const fs::path out = program.folder / "run";
  ASSERT_EQ(program.run(out, {"--dry-run"}), 0) << program.output;
  for (const char* part : {"parameters", "activations", "one step", "4 steps"})
    EXPECT_NE(program.output.find(part), std::string::npos) << part << "\n" << program.output;
  EXPECT_FALSE(fs::exists(out));

  ASSERT_EQ(program.run(out), 0) << program.output;
  const ProgramResult described = run_program("info " + out.string());
  EXPECT_EQ(described.exit_code, 0) << described.output;
  EXPECT_NE(described.output.find("ckpt/step-00000004 (PMNet)"), std::string::npos) << described.output;
  const ProgramResult exported =
      run_program(fmt::format("export {} {}", out.string(), (program.folder / "model").string()));
  EXPECT_EQ(exported.exit_code, 0) << exported.output;
  EXPECT_EQ(whole_file(program.folder / "model" / "model.safetensors"),
            whole_file(checkpoint_folder(out / "ckpt", 4) / "model.safetensors"));
  EXPECT_FALSE(fs::exists(program.folder / "model" / "optimizer.safetensors"));
  expect_user_error(fmt::format("export {} {}/x", program.folder.path().string(), out.string()), "checkpoint");
}

void expect_two_ranks_resume_bit_by_bit(const std::vector<int64_t>& split_points) {
  constexpr int64_t kSteps = 11;
  Program program;
  program.config.carry = true;
  program.config.steps = kSteps;
  program.config.checkpoint_every = 1;
  program.config.keep = 100;
  const fs::path whole = program.folder / "whole";
  ASSERT_EQ(program.run_two(whole), std::pair(0, 0)) << program.output;
  const auto losses = [](const fs::path& run) {
    std::vector<double> values;
    auto series = read_metrics((run / "metrics.jsonl").string());
    for (const MetricPoint& point : series.by_name["train/loss"]) values.push_back(point.value);
    return values;
  };
  EXPECT_EQ(losses(whole).size(), static_cast<size_t>(kSteps));
  for (const int64_t step : split_points) {
    const fs::path copy = program.folder / ("from" + std::to_string(step));
    fs::copy(whole, copy, fs::copy_options::recursive);
    for (const int64_t saved : checkpoint_steps(copy / "ckpt"))
      if (saved > step) fs::remove_all(checkpoint_folder(copy / "ckpt", saved));
    ASSERT_EQ(program.run_two(copy, {"--resume"}), std::pair(0, 0)) << program.output;
    EXPECT_EQ(losses(copy), losses(whole)) << "from step " << step;
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "carry.safetensors"})
      EXPECT_EQ(whole_file(checkpoint_folder(whole / "ckpt", kSteps) / file),
                whole_file(checkpoint_folder(copy / "ckpt", kSteps) / file))
          << file << " from step " << step;
  }
}

TEST(TrainTwoRanks, ResumeBitByBit) { expect_two_ranks_resume_bit_by_bit({1, 6}); }
TEST(TrainTwoRanksSlow, ResumeBitByBitFromTenPoints) {
  expect_two_ranks_resume_bit_by_bit({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
}

TEST(TrainTwoRanks, ASignalToOneStopsBothCleanly) {
  Program program;
  program.config.steps = 1'000'000;
  const fs::path out = program.folder / "run";
  const auto ranks = program.start_two(out);
  ASSERT_TRUE(wait_for_steps(out, 3)) << ranks[0]->output() << ranks[1]->output();
  ranks[1]->signal(SIGTERM);
  EXPECT_EQ(ranks[1]->wait(20s), 0) << ranks[1]->output();
  EXPECT_EQ(ranks[0]->wait(20s), 0) << ranks[0]->output();
  ASSERT_EQ(checkpoint_steps(out / "ckpt").size(), 1u);
  EXPECT_EQ(lines_of(out / "metrics.jsonl"), checkpoint_steps(out / "ckpt")[0]);
}

TEST(TrainTwoRanks, AKilledRankEndsTheOtherAndMistakesReachBoth) {
  Program program;
  program.config.steps = 1'000'000;
  const fs::path out = program.folder / "run";
  {
    const auto ranks = program.start_two(out);
    ASSERT_TRUE(wait_for_steps(out, 2)) << ranks[0]->output() << ranks[1]->output();
    ranks[1]->signal(SIGKILL);
    EXPECT_EQ(ranks[0]->wait(70s), 1) << ranks[0]->output();
    EXPECT_NE(ranks[0]->output().find("rank 0 of 2"), std::string::npos) << ranks[0]->output();
  }
  EXPECT_EQ(program.run_two(out), std::pair(2, 2)) << program.output;  // without --resume
  program.config.batch = 3;
  EXPECT_EQ(program.run_two(program.folder / "odd"), std::pair(2, 2)) << program.output;
}

// torchrun restarts the ranks after one is killed; they resume and end as if nothing had happened.
TEST(TrainTwoRanksSlow, TorchrunRestartsAfterAKill) {
  const fs::path torchrun = fs::path(PMNET_SOURCE_DIR) / ".venv" / "bin" / "torchrun";
  if (!fs::exists(torchrun)) GTEST_SKIP() << "torchrun is not installed";
  Program program;
  program.config.steps = 400;
  program.config.checkpoint_every = 20;
  ASSERT_EQ(program.run_two(program.folder / "whole"), std::pair(0, 0)) << program.output;
  const fs::path out = program.folder / "run";
  std::vector<std::string> arguments{
      torchrun.string(), "--no-python", "--standalone", "--nproc-per-node", "2", "--max-restarts", "3"};
  for (const std::string& argument : program.arguments(out, {"--resume"})) arguments.push_back(argument);
  Process launcher(arguments, program.folder / "output");
  ASSERT_TRUE(wait_for_steps(out, 50)) << launcher.output();
  const std::string lock = whole_file(out / "lock");  // "process 123 since ..."
  ::kill(static_cast<pid_t>(std::stoi(lock.substr(std::string("process ").size()))), SIGKILL);
  EXPECT_EQ(launcher.wait(300s), 0) << launcher.output();
  EXPECT_NE(launcher.output().find("resumed at step "), std::string::npos) << "the kill came too late to show anything";
  EXPECT_EQ(whole_file(checkpoint_folder(program.folder / "whole" / "ckpt", 400) / "model.safetensors"),
            whole_file(checkpoint_folder(out / "ckpt", 400) / "model.safetensors"));
}

}  // namespace
}  // namespace pmnet
