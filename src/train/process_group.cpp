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

#include <cstring>
#include <optional>

#include "base/error.h"

namespace pmnet {

namespace {

// Reading and packing data at the start of a run, or saving, may take long on one rank.
constexpr std::chrono::minutes kPatience{30};

// c10d binds its store to every interface. On one machine nobody else should reach it.
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

}  // namespace

struct ProcessGroup::Backend {
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::Backend> gloo;
  c10::intrusive_ptr<c10d::Backend> nccl;  // null unless asked for and built in

  c10d::Backend& for_tensor(const at::Tensor& tensor) { return tensor.is_cuda() && nccl ? *nccl : *gloo; }
};

ProcessGroup::ProcessGroup() = default;

ProcessGroup::ProcessGroup(const Launch& launch, std::chrono::seconds timeout, bool cuda)
    : launch_(launch), timeout_(timeout) {
  if (launch_.world == 1) return;
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
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    lost(fmt::format("meeting the others at {}:{}", launch_.address, launch_.port), error);
  }
}

ProcessGroup::~ProcessGroup() = default;

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

std::vector<std::string> ProcessGroup::exchange(const std::string& text) {
  if (!backend_) return {text};
  const auto key = [&](int r) { return fmt::format("exchange/{}/{}", exchanges_, r); };
  std::vector<std::string> all;
  try {
    backend_->store->set(key(rank()), bytes_of(text));
    for (int r = 0; r < world(); ++r) {
      backend_->store->wait({key(r)}, kPatience);
      const std::vector<uint8_t> bytes = backend_->store->get(key(r));
      all.emplace_back(bytes.begin(), bytes.end());
    }
  } catch (const std::exception& error) {
    lost("talking to the ranks", error);
  }
  ++exchanges_;
  return all;
}

void ProcessGroup::agree(const std::string& what, const std::string& value) {
  const std::vector<std::string> all = exchange(value);
  for (int r = 1; r < world(); ++r)
    if (all[r] != all[0])
      fail("rank 0 and rank {} have different {}: {} and {}; start every rank with the same arguments and files", r,
           what, all[0], all[r]);
}

void ProcessGroup::together(const std::function<void()>& action) {
  constexpr const char* kFine = "+";
  std::string problem;
  try {
    action();
  } catch (const UserError& error) {
    problem = error.what();
  }
  if (!backend_ && !problem.empty()) throw UserError(problem);
  const std::vector<std::string> all = exchange(problem.empty() ? kFine : problem);
  if (!problem.empty()) throw UserError(problem);
  for (int r = 0; r < world(); ++r)
    if (all[r] != kFine) fail("stopped because of rank {}: {}", r, all[r]);
}

void ProcessGroup::lead(const std::function<void()>& action) {
  together([&] {
    if (leads()) action();
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
    backend_->store->set("stop", bytes_of("1"));
  } catch (const std::exception& error) {
    lost("talking to the ranks", error);
  }
}

bool ProcessGroup::stop_announced() {
  if (!backend_ || stop_seen_) return stop_seen_;
  try {
    stop_seen_ = backend_->store->check({"stop"});
  } catch (const std::exception& error) {
    lost("talking to the ranks", error);
  }
  return stop_seen_;
}

}  // namespace pmnet
