#include "train/process_group.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "support/errors.h"
#include "support/free_port.h"
#include "train/gradient_reducer.h"

namespace pmnet {
namespace {

Launch launch_of(int rank, int world, int port) {
  Launch launch;
  launch.rank = rank;
  launch.world = launch.local_world = world;
  launch.address = "localhost";
  launch.port = port;
  return launch;
}

template <typename Body>
void on_ranks(int world, const Body& body) {
  const int port = free_port();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      ProcessGroup group(launch_of(rank, world, port), std::chrono::seconds(20));
      body(group);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(ProcessGroup, OneProcessNeedsNobody) {
  ProcessGroup group;
  const at::Tensor tensor = at::ones({3});
  group.sum(tensor);
  EXPECT_EQ(tensor.sum().item<float>(), 3);
  EXPECT_EQ(group.gather(tensor).size(), 1u);
  EXPECT_EQ(group.all_gather_text("a"), std::vector<std::string>{"a"});
  EXPECT_FALSE(group.any(false));
  EXPECT_EQ(user_error_of([&] { group.run_on_rank0([] { fail("no"); }); }), "no");
}

TEST(ProcessGroup, SumsAndGathers) {
  on_ranks(3, [](ProcessGroup& group) {
    const at::Tensor tensor = at::full({4}, group.rank() + 1);
    group.sum(tensor);
    EXPECT_TRUE(at::equal(tensor, at::full({4}, 6)));
    const auto all = group.gather(at::full({group.rank(), 2}, group.rank() + 0.5));
    ASSERT_EQ(all.size(), 3u);
    for (int r = 0; r < 3; ++r) EXPECT_TRUE(at::equal(all[r], at::full({r, 2}, r + 0.5))) << r;
    EXPECT_EQ(group.all_gather_text(std::to_string(group.rank())), (std::vector<std::string>{"0", "1", "2"}));
    EXPECT_TRUE(group.any(group.rank() == 2));
    EXPECT_FALSE(group.any(false));
  });
}

TEST(ProcessGroup, DisagreementAndMistakesReachEveryRank) {
  on_ranks(2, [](ProcessGroup& group) {
    group.require_equal("seed", "same");
    const std::string error = user_error_of([&] { group.require_equal("seed", std::to_string(group.rank())); });
    EXPECT_NE(error.find("rank 0 and rank 1 have different seed: 0 and 1"), std::string::npos) << error;
    const std::string mistake = user_error_of([&] {
      group.run_everywhere([&] {
        if (group.rank() == 1) fail("no such file");
      });
    });
    EXPECT_NE(mistake.find("no such file"), std::string::npos) << mistake;
    bool ran = false;
    group.run_on_rank0([&] { ran = true; });
    EXPECT_EQ(ran, group.rank() == 0);
  });
}

// Rank 0, where the store is, has to stay until the others have read the last exchange.
TEST(ProcessGroup, TheStoreOutlivesTheLastExchange) {
  for (int trial = 0; trial < 5; ++trial)
    on_ranks(2, [](ProcessGroup& group) {
      if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_EQ(group.all_gather_text("last").size(), 2u);
    });
}

TEST(ProcessGroup, AStopIsHeardByAll) {
  on_ranks(2, [](ProcessGroup& group) {
    EXPECT_FALSE(group.stop_announced());
    group.all_gather_text("");
    if (group.rank() == 1) group.announce_stop();
    group.all_gather_text("");
    EXPECT_TRUE(group.stop_announced());
  });
}

TEST(ProcessGroup, ALostPeerIsNoticedWithinTheTimeout) {
  const int port = free_port();
  std::thread leaver([&] { ProcessGroup group(launch_of(1, 2, port), std::chrono::seconds(20)); });
  ProcessGroup group(launch_of(0, 2, port), std::chrono::seconds(20));
  leaver.join();
  const at::Tensor tensor = at::ones({3});
  try {
    group.sum(tensor);
    FAIL() << "a sum with nobody";
  } catch (const PeerLost& lost) {
    EXPECT_NE(std::string(lost.what()).find("rank 0 of 2"), std::string::npos) << lost.what();
  }
}

TEST(ProcessGroup, APeerThatHangsIsNoticedWithinTheTimeout) {
  const int port = free_port();
  std::thread sleeper([&] {
    ProcessGroup group(launch_of(1, 2, port), std::chrono::seconds(20));
    std::this_thread::sleep_for(std::chrono::seconds(4));
  });
  ProcessGroup group(launch_of(0, 2, port), std::chrono::seconds(1));
  const at::Tensor tensor = at::ones({3});
  EXPECT_THROW(group.sum(tensor), PeerLost);
  sleeper.join();
}

// A rank that packs data keeps the others waiting for longer than the time-out; one whose process is stopped does not.
TEST(ProcessGroup, ABusyRankIsWaitedForAndAStoppedOneIsNot) {
  const int port = free_port();
  const pid_t child = ::fork();
  if (child == 0) {
    ProcessGroup group(launch_of(1, 2, port), std::chrono::seconds(4));
    std::this_thread::sleep_for(std::chrono::seconds(6));
    group.all_gather_text("late");
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  ProcessGroup group(launch_of(0, 2, port), std::chrono::seconds(4));
  EXPECT_EQ(group.all_gather_text("early").at(1), "late");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(group.all_gather_text("never"), PeerLost);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// Slow: the client of a stopped store may block inside LibTorch far beyond the timeout.
TEST(ProcessGroupSlow, AStoreThatHangsIsNoticed) {
  const int port = free_port();
  const pid_t child = ::fork();
  if (child == 0) {
    ProcessGroup group(launch_of(0, 2, port), std::chrono::seconds(4));
    group.all_gather_text("");
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  const auto group = std::make_unique<ProcessGroup>(launch_of(1, 2, port), std::chrono::seconds(4));
  group->all_gather_text("");
  EXPECT_THROW(group->all_gather_text("never"), PeerLost);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(Launch, ReadsWhatTorchrunSets) {
  const auto set = [](const char* name, const char* value) { ::setenv(name, value, 1); };
  for (const char* name : {"WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE", "LOCAL_RANK"})
    ::unsetenv(name);
  EXPECT_EQ(launch_from_environment().world, 1);
  set("WORLD_SIZE", "4");
  EXPECT_NE(user_error_of(launch_from_environment).find("RANK is not set"), std::string::npos);
  set("RANK", "3");
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", "29500");
  EXPECT_EQ(launch_from_environment().local_world, 4) << "all on this machine";
  set("LOCAL_WORLD_SIZE", "2");
  const Launch launch = launch_from_environment();
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.local_world, 2);
  EXPECT_EQ(launch.port, 29500);
  set("RANK", "4");
  EXPECT_NE(user_error_of(launch_from_environment).find("RANK is '4', expected a number from 0 to 3"),
            std::string::npos);
  for (const char* name : {"WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE"}) ::unsetenv(name);
}

// Gradients of sum(a * x) + sum(b * b * x): a appears once, b twice, c never.
TEST(GradientReducer, SumsWhatTheLastBackwardLeaves) {
  for (const int64_t bucket_bytes : {1, 1 << 20}) {
    on_ranks(2, [&](ProcessGroup& group) {
      const at::Tensor a = at::ones({3}).requires_grad_(), b = at::full({2}, 2.0).requires_grad_(),
                       c = at::ones({5}).requires_grad_();
      const auto reducer = make_gradient_reducer({a, b, c}, group, bucket_bytes);
      for (int step = 0; step < 3; ++step) {
        const double x = group.rank() + 1 + step;
        for (int pass = 0; pass < 2; ++pass) {
          if (pass == 1) reducer->expect_last_backward();
          ((a * x).sum() + (b * b * x).sum()).backward();
        }
        reducer->finalize();
        const double sum = 2 * ((1 + step) + (2 + step));
        EXPECT_TRUE(at::equal(a.grad(), at::full({3}, sum))) << a.grad();
        EXPECT_TRUE(at::equal(b.grad(), at::full({2}, 4 * sum))) << b.grad();
        EXPECT_FALSE(c.grad().defined());
        for (const at::Tensor& p : {a, b, c}) const_cast<at::Tensor&>(p).mutable_grad() = at::Tensor();
      }
      reducer->finalize();  // a step that was broken off before its backward
      EXPECT_FALSE(a.grad().defined());
    });
  }
}

}  // namespace
}  // namespace pmnet
