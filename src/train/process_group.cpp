#include "train/process_group.h"

#include <ATen/ATen.h>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#ifdef USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/stop_signal.h"

namespace pmnet {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Reading and packing data at the start of a run, or saving, may take this long on one rank while the others wait.
constexpr std::chrono::minutes kPatience{30};
constexpr const char* kStopKey = "stop";

// c10d binds its store to every interface. On one machine, other hosts must not reach it.
int listen_on_loopback(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fail("cannot listen on port {} for the other ranks: {}; choose another MASTER_PORT", port, std::strerror(errno));
  return fd;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// Counts up in the store while the process runs, so that the others can tell a busy rank from one that hangs.
class Heartbeat {
 public:
  Heartbeat(c10::intrusive_ptr<c10d::Store> store, int rank, std::chrono::seconds timeout)
      : thread_([this, store = std::move(store), rank,
                 interval = std::min<Clock::duration>(1s, Clock::duration(timeout) / 4)] {
          std::unique_lock lock(mutex_);
          try {
            do store->add(key(rank), 1);
            while (!ended_.wait_for(lock, interval, [this] { return end_; }));
          } catch (const std::exception&) {  // the store is gone: the next exchange reports it
          }
        }) {}
  ~Heartbeat() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }

  static std::string key(int rank) { return fmt::format("alive/{}", rank); }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

// One exchange of texts. It runs in a thread, because a store whose process hangs never answers.
class TextGather {
 public:
  TextGather(c10::intrusive_ptr<c10d::Store> store, const Launch& launch, int64_t number, std::chrono::seconds timeout)
      : store_(std::move(store)), launch_(launch), number_(number), timeout_(timeout) {}

  std::vector<std::string> run(const std::string& text) {
    store_->set(key(launch_.rank), bytes_of(text));
    std::vector<std::string> all;
    for (int r = 0; r < launch_.world; ++r) {
      wait_for(r);
      const std::vector<uint8_t> bytes = store_->get(key(r));
      all.emplace_back(bytes.begin(), bytes.end());
    }
    return all;
  }
  Clock::time_point answered() const { return answered_; }  // when the store last did

 private:
  std::string key(int r) const { return fmt::format("exchange/{}/{}", number_, r); }

  void wait_for(int r) const {
    const Clock::time_point begin = Clock::now();
    Clock::time_point alive = begin;
    int64_t beats = 0;
    for (Clock::duration pause = 1ms; !store_->check({key(r)}); pause = std::min<Clock::duration>(2 * pause, 100ms)) {
      answered_ = Clock::now();
      if (StopSignals::requested()) store_->set(kStopKey, bytes_of("1"));
      if (const int64_t now = store_->add(Heartbeat::key(r), 0); now != beats) {
        beats = now;
        alive = answered_;
      }
      if (answered_.load() - alive > timeout_) throw std::runtime_error(fmt::format("rank {} hangs", r));
      if (answered_.load() - begin > kPatience) throw std::runtime_error(fmt::format("rank {} takes too long", r));
      std::this_thread::sleep_for(pause);
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;
  Launch launch_;
  int64_t number_;
  std::chrono::seconds timeout_;
  mutable std::atomic<Clock::time_point> answered_{Clock::now()};
};

}  // namespace

struct ProcessGroup::Backend {
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::Backend> gloo;
  c10::intrusive_ptr<c10d::Backend> nccl;  // null unless asked for and built in
  std::unique_ptr<Heartbeat> heartbeat;
  bool serves = false;  // the store is in this process

  c10d::Backend& for_tensor(const at::Tensor& tensor) { return tensor.is_cuda() && nccl ? *nccl : *gloo; }
};

ProcessGroup::ProcessGroup() = default;

ProcessGroup::ProcessGroup(const Launch& launch, std::chrono::seconds timeout, bool cuda)
    : launch_(launch), timeout_(timeout) {
  if (launch_.world == 1) return;
  std::signal(SIGPIPE, SIG_IGN);  // a lost peer is then an error of the write, not the end of this process
  const bool local = is_loopback(launch_.address);
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(launch_.port);
  store_options.isServer = launch_.rank == 0 && !launch_.store_given;
  store_options.waitWorkers = false;
  store_options.timeout = timeout;
  if (store_options.isServer && local) store_options.masterListenFd = listen_on_loopback(launch_.port);
  const std::string address = local ? "127.0.0.1" : launch_.address;
  try {
    backend_ = std::make_unique<Backend>();
    backend_->store = c10::make_intrusive<c10d::PrefixStore>(
        "pmnet/" + launch_.attempt, c10::make_intrusive<c10d::TCPStore>(address, store_options));
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(local ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                     : c10d::ProcessGroupGloo::createDefaultDevice());
    backend_->gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(backend_->store, launch_.rank, launch_.world, options);
#ifdef USE_C10D_NCCL
    if (cuda)
      backend_->nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(
          c10::make_intrusive<c10d::PrefixStore>("nccl", backend_->store), launch_.rank, launch_.world);
#else
    if (cuda) fail("this build has no NCCL; configure it with -DPMNET_CUDA=ON to train on several CUDA devices");
#endif
    backend_->serves = store_options.isServer;
    backend_->heartbeat = std::make_unique<Heartbeat>(backend_->store, launch_.rank, timeout);
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    lost(fmt::format("meeting the others at {}:{}", launch_.address, launch_.port), error);
  }
}

// The store lives in rank 0. It leaves last, as the others may still be reading what it wrote; not for long, since one
// of them may have died.
ProcessGroup::~ProcessGroup() {
  if (!backend_) return;
  constexpr const char* kLeftKey = "left";
  const Clock::time_point give_up = Clock::now() + std::min<Clock::duration>(timeout_, 5s);
  backend_->heartbeat.reset();
  try {
    int64_t left = backend_->store->add(kLeftKey, 1);
    for (; backend_->serves && left < world() && Clock::now() < give_up; left = backend_->store->add(kLeftKey, 0))
      std::this_thread::sleep_for(10ms);
  } catch (const std::exception&) {  // the store is gone already
  }
}

void ProcessGroup::lost(const std::string& doing, const std::exception& cause) const {
  throw PeerLost(
      fmt::format("rank {} of {}: {} failed: another rank has ended, hangs for more than {} s or cannot be "
                  "reached ({}); start again with --resume",
                  rank(), world(), doing, timeout_.count(), first_line(cause.what())));
}

ProcessGroup::Wait ProcessGroup::start_sum(at::Tensor tensor) {
  if (!backend_) return [] {};
  std::vector<at::Tensor> tensors{std::move(tensor)};
  try {
    auto work = backend_->for_tensor(tensors[0]).allreduce(tensors);
    return [this, work, tensors] {
      try {
        work->wait();
      } catch (const std::exception& error) {
        lost("summing over the ranks", error);
      }
    };
  } catch (const std::exception& error) {
    lost("summing over the ranks", error);
  }
}

std::vector<at::Tensor> ProcessGroup::gather(const at::Tensor& tensor) {
  if (!backend_) return {tensor};
  try {
    const auto gather_equal = [&](const at::Tensor& mine) {
      std::vector<std::vector<at::Tensor>> all(1);
      for (int r = 0; r < world(); ++r) all[0].push_back(at::empty_like(mine));
      std::vector<at::Tensor> input{mine};
      backend_->gloo->allgather(all, input)->wait();
      return all[0];
    };
    const std::vector<at::Tensor> shapes = gather_equal(at::tensor(tensor.sizes(), at::kLong));
    int64_t most = 0;
    for (const at::Tensor& shape : shapes) most = std::max(most, shape.prod().item<int64_t>());
    at::Tensor flat = at::zeros({most}, tensor.options().device(at::kCPU));
    flat.narrow(0, 0, tensor.numel()).copy_(tensor.flatten());
    std::vector<at::Tensor> all = most > 0 ? gather_equal(flat) : std::vector<at::Tensor>(world(), flat);
    for (int r = 0; r < world(); ++r) {
      const std::vector<int64_t> shape(shapes[r].const_data_ptr<int64_t>(),
                                       shapes[r].const_data_ptr<int64_t>() + shapes[r].numel());
      all[r] = all[r].narrow(0, 0, shapes[r].prod().item<int64_t>()).view(shape);
    }
    return all;
  } catch (const std::exception& error) {
    lost("gathering from the ranks", error);
  }
}

std::vector<std::string> ProcessGroup::all_gather_text(const std::string& text) {
  if (!backend_) return {text};
  const auto gather = std::make_shared<TextGather>(backend_->store, launch_, exchanges_++, timeout_);
  std::packaged_task<std::vector<std::string>()> task([gather, text] { return gather->run(text); });
  std::future<std::vector<std::string>> result = task.get_future();
  std::thread(std::move(task)).detach();
  try {
    while (result.wait_for(100ms) != std::future_status::ready)
      if (Clock::now() - gather->answered() > timeout_) throw std::runtime_error("the store does not answer");
    return result.get();
  } catch (const std::exception& error) {
    lost("talking to the ranks", error);
  }
}

void ProcessGroup::require_equal(const std::string& what, const std::string& value) {
  const std::vector<std::string> all = all_gather_text(value);
  for (int r = 1; r < world(); ++r)
    if (all[r] != all[0])
      fail("rank 0 and rank {} have different {}: {} and {}; start every rank with the same arguments and files", r,
           what, all[0], all[r]);
}

void ProcessGroup::run_everywhere(const std::function<void()>& action) {
  constexpr const char* kFine = "+";
  if (!backend_) return action();
  std::exception_ptr failure;
  std::string problem = kFine;
  try {
    action();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    problem = error.what();
  }
  const std::vector<std::string> all = all_gather_text(problem);
  if (failure) std::rethrow_exception(failure);
  for (int r = 0; r < world(); ++r)
    if (all[r] != kFine) fail("stopped because of rank {}: {}", r, all[r]);
}

void ProcessGroup::run_on_rank0(const std::function<void()>& action) {
  run_everywhere([&] {
    if (is_rank0()) action();
  });
}

bool ProcessGroup::any(bool mine) {
  if (!backend_) return mine;
  const at::Tensor count = at::full({1}, mine ? 1 : 0, at::kLong);
  sum(count);
  return count.item<int64_t>() > 0;
}

void ProcessGroup::announce_stop() {
  if (!backend_ || stop_seen_) return;
  stop_seen_ = true;
  try {
    backend_->store->set(kStopKey, bytes_of("1"));
  } catch (const std::exception& error) {
    lost("talking to the ranks", error);
  }
}

bool ProcessGroup::stop_announced() {
  if (!backend_ || stop_seen_) return stop_seen_;
  try {
    stop_seen_ = backend_->store->check({kStopKey});
  } catch (const std::exception& error) {
    lost("talking to the ranks", error);
  }
  return stop_seen_;
}

}  // namespace pmnet
