#include "engine/worker_pool.h"

#include <ATen/Parallel.h>
#include <hwy/cache_control.h>

#include <algorithm>
#include <memory>
#include <utility>

#ifndef INTRA_OP_PARALLEL
#error "at::parallel_for is serial in this file: compile it with -fopenmp"
#endif

namespace pmnet {

namespace {

// Spins only for a short while: other programs may need the processor.
uint32_t wait_for_change(const std::atomic<uint32_t>& word, uint32_t old) {
  constexpr int kSpins = 4000;
  for (int i = 0; i < kSpins; ++i) {
    if (const uint32_t now = word.load(std::memory_order_acquire); now != old) return now;
    hwy::Pause();
  }
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

}  // namespace

WorkerPool::WorkerPool(int64_t num_threads) {
  for (int64_t i = 1; i < std::min(num_threads, kMaxThreads); ++i) workers_.emplace_back([this] { worker_loop(); });
}

WorkerPool::~WorkerPool() {
  stopping_ = true;
  call_.fetch_add(kCall, std::memory_order_release);
  call_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void WorkerPool::worker_loop() {
  for (uint32_t seen = 0; !stopping_; seen = wait_for_change(call_, seen)) {
    while (claim_and_run()) {
      finished_.fetch_add(1, std::memory_order_release);
      finished_.notify_one();
    }
  }
}

bool WorkerPool::claim_and_run() {
  uint32_t call = call_.load(std::memory_order_acquire);
  do {
    if ((call & kByte) >= (call / kCount & kByte)) return false;
  } while (!call_.compare_exchange_weak(call, call + 1, std::memory_order_acq_rel, std::memory_order_acquire));
  run_task(call & kByte);
  return true;
}

void WorkerPool::run_task(int64_t i) {
  try {
    (*task_)(i);
  } catch (...) {
    const std::lock_guard lock(failing_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void WorkerPool::run(int64_t count, Task task) {
  task_ = &task;
  finished_.store(0, std::memory_order_relaxed);
  const uint32_t number = call_.load(std::memory_order_relaxed) / kCall + 1;
  call_.store(number * kCall + static_cast<uint32_t>(count) * kCount + 1, std::memory_order_release);
  call_.notify_all();
  run_task(0);
  uint32_t by_workers = static_cast<uint32_t>(count) - 1;
  while (claim_and_run()) --by_workers;
  for (uint32_t done = finished_.load(std::memory_order_acquire); done < by_workers;)
    done = wait_for_change(finished_, done);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

Workers Workers::from_pool() {
  static std::mutex mutex;
  static std::unique_ptr<WorkerPool> pool;
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), WorkerPool::kMaxThreads);
  std::unique_lock lock(mutex, std::try_to_lock);
  if (threads <= 1 || !lock) return {nullptr, {}, 1};
  if (!pool || pool->num_threads() < threads) {
    pool = nullptr;  // its workers end before others begin
    pool = std::make_unique<WorkerPool>(threads);
  }
  return {pool.get(), std::move(lock), threads};
}

Workers Workers::from_regions() {
  return {nullptr, {}, std::min<int64_t>(at::get_num_threads(), WorkerPool::kMaxThreads)};
}

void Workers::run(int64_t tasks, WorkerPool::Task task) const {
  if (tasks == 1) return task(0);
  if (pool_ != nullptr) return pool_->run(tasks, task);
  at::parallel_for(0, tasks, /*grain_size=*/1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) task(i);
  });
}

}  // namespace pmnet
