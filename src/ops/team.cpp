#include "ops/team.h"

#include <ATen/Parallel.h>
#include <hwy/cache_control.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

namespace pmnet::ops {

namespace {

class Team {
 public:
  using Work = c10::function_ref<void(int64_t)>;

  // Of a thread that is not the leader's, until the team is dismissed.
  void stand_by() {
    uint32_t seen = orders_.fetch_add(kMember, std::memory_order_acquire) + kMember;
    const int64_t place = seen & kMembers;
    while ((seen & kDismissed) == 0) {
      const uint32_t now = wait_for_change(orders_, seen);
      if (calls(now) != calls(seen)) {
        if (place < count_) take_part(place);
        finished_.fetch_add(1, std::memory_order_release);
        finished_.notify_one();
      }
      seen = now;
    }
  }

  // work(i) for i in [0, count), by the leader.
  void run(int64_t count, const Work& work) {
    work_ = &work;
    count_ = count;
    finished_.store(0, std::memory_order_relaxed);
    // One word holds the calls and the members: this call is for those who were members before it.
    const int64_t members = orders_.fetch_add(kCall, std::memory_order_release) & kMembers;
    orders_.notify_all();
    take_part(0);
    for (int64_t i = members + 1; i < count; ++i) take_part(i);
    for (uint32_t done = finished_.load(std::memory_order_acquire); done < members;)
      done = wait_for_change(finished_, done);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  void dismiss() {
    orders_.fetch_or(kDismissed, std::memory_order_release);
    orders_.notify_all();
  }

 private:
  static constexpr uint32_t kMember = 1, kMembers = 0x7fff, kDismissed = 0x8000, kCall = 0x10000;

  static uint32_t calls(uint32_t orders) { return orders / kCall; }

  // Not for long on the processor, which may have other programs to run.
  static uint32_t wait_for_change(const std::atomic<uint32_t>& word, uint32_t old) {
    constexpr int kSpins = 4000;
    uint32_t now = old;
    for (int i = 0; i < kSpins && now == old; ++i) {
      hwy::Pause();
      now = word.load(std::memory_order_acquire);
    }
    if (now != old) return now;
    word.wait(old, std::memory_order_acquire);
    return word.load(std::memory_order_acquire);
  }

  void take_part(int64_t place) {
    try {
      (*work_)(place);
    } catch (...) {
      const std::lock_guard lock(failing_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  std::atomic<uint32_t> orders_ = 0, finished_ = 0;
  const Work* work_ = nullptr;
  int64_t count_ = 0;
  std::mutex failing_;
  std::exception_ptr failure_;
};

thread_local Team* led_team = nullptr;  // by this thread, which is not at work on a share of its own

}  // namespace

void with_team(c10::function_ref<void()> body) {
  if (led_team != nullptr) return body();
  Team team;
  at::parallel_for(0, at::get_num_threads(), /*grain_size=*/1, [&](int64_t first, int64_t) {
    if (first > 0) return team.stand_by();
    struct Leading {
      Team& team;
      explicit Leading(Team& led) : team(led) { led_team = &led; }
      ~Leading() {
        led_team = nullptr;
        team.dismiss();
      }
    } leading(team);
    body();
  });
}

void run_on_threads(int64_t count, c10::function_ref<void(int64_t)> work) {
  if (count <= 1) {
    if (count == 1) work(0);
    return;
  }
  if (led_team == nullptr)
    return at::parallel_for(0, count, /*grain_size=*/1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) work(i);
    });
  // Work that shares out work itself does it alone.
  Team* const team = std::exchange(led_team, nullptr);
  struct Back {
    Team* team;
    ~Back() { led_team = team; }
  } back{team};
  team->run(count, work);
}

}  // namespace pmnet::ops
