// Threads for a pass of the engine. Decoding a byte is some 90 parallel sections, many of 20 microseconds: opening and
// closing an OpenMP region costs 3 of them, waking a worker that still spins costs 1.
#pragma once
#include <c10/util/FunctionRef.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace pmnet {

// Worker threads that wait for tasks: they spin for a fraction of a millisecond, then sleep.
class WorkerPool {
 public:
  using Task = c10::function_ref<void(int64_t)>;
  static constexpr int64_t kMaxThreads = 255;

  // `num_threads` counts the thread that calls run().
  explicit WorkerPool(int64_t num_threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int64_t num_threads() const { return static_cast<int64_t>(workers_.size()) + 1; }

  // task(i) for i in [0, count), count <= num_threads(), on the caller and on as many workers as are awake in time; the
  // caller runs what no worker has begun. Rethrows the first exception. One call at a time, and none from inside a
  // task.
  void run(int64_t count, Task task);

 private:
  // The call that is open, in one word: a number that changes with every call, how many tasks it has, and the next one
  // that no worker has claimed. A worker reads task_ only after it has claimed one.
  static constexpr uint32_t kCall = 0x10000, kCount = 0x100, kByte = 0xff;

  void worker_loop();
  bool claim_and_run();  // false: every task is claimed
  void run_task(int64_t i);

  std::atomic<uint32_t> call_ = 0, finished_ = 0;
  std::atomic<bool> stopping_ = false;
  const Task* task_ = nullptr;
  std::mutex failing_;
  std::exception_ptr failure_;
  std::vector<std::thread> workers_;
};

// The threads one pass may use. Safe to ask for on any thread of the program.
class Workers {
 public:
  // The program's pool, for passes of short sections. While another thread holds it, this thread works alone.
  static Workers from_pool();
  // OpenMP regions, for passes of long sections between ATen's products: both then use the same threads.
  static Workers from_regions();

  int64_t count() const { return count_; }
  // task(i) for i in [0, tasks), tasks <= count(). Tasks do not call run().
  void run(int64_t tasks, WorkerPool::Task task) const;

 private:
  Workers(WorkerPool* pool, std::unique_lock<std::mutex> lock, int64_t count)
      : pool_(pool), lock_(std::move(lock)), count_(count) {}

  WorkerPool* pool_;
  std::unique_lock<std::mutex> lock_;
  int64_t count_;
};

}  // namespace pmnet
