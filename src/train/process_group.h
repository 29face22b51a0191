// The processes that train one model together, on c10d: any launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT, torchrun among them. With one process every call returns at once.
#pragma once
#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace pmnet {

struct Launch {
  int rank = 0;
  int world = 1;
  int local_rank = 0;
  int local_world = 1;  // ranks on this machine
  std::string address;
  int port = 0;
  std::string attempt;       // torchrun counts restarts
  bool store_given = false;  // the launcher runs the store at that address
};

// The ranks are on one machine and need not be reachable from others.
bool is_loopback(const std::string& address);

// From the environment; half of it, or nonsense, is a UserError.
Launch launch_from_environment();

// Another rank died, hung for longer than the time-out, or cannot be reached.
struct PeerLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ProcessGroup {
 public:
  ProcessGroup();  // one process
  // `cuda`: sums of CUDA tensors go through NCCL, where the build has it.
  ProcessGroup(const Launch& launch, std::chrono::seconds timeout, bool cuda = false);
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  ~ProcessGroup();

  int rank() const { return launch_.rank; }
  int world() const { return launch_.world; }
  bool leads() const { return launch_.rank == 0; }
  const Launch& launch() const { return launch_; }

  // Sums over the ranks, in place; every rank gets the same bits. The function waits for the sum.
  using Wait = std::function<void()>;
  Wait start_sum(at::Tensor tensor);
  void sum(at::Tensor tensor) { start_sum(std::move(tensor))(); }

  bool any(bool mine);  // whether it is true on some rank

  // Tensors of all ranks, in order of the ranks; shapes may differ.
  std::vector<at::Tensor> gather(const at::Tensor& tensor);

  // Texts of all ranks. For the start of a run, when one may be minutes behind another.
  std::vector<std::string> exchange(const std::string& text);
  // UserError on every rank unless the value is the same on all.
  void agree(const std::string& what, const std::string& value);
  // Runs on rank 0 while the others wait, however long it takes; a UserError of it is one of all ranks.
  void lead(const std::function<void()>& action);
  // Runs on every rank; a UserError of one is one of all.
  void together(const std::function<void()>& action);

  // A wish to stop that one rank has and the others should learn of soon.
  void announce_stop();
  bool stop_announced();

 private:
  struct Backend;
  [[noreturn]] void lost(const std::string& doing, const std::exception& cause) const;

  Launch launch_;
  std::chrono::seconds timeout_{60};
  std::unique_ptr<Backend> backend_;
  int64_t exchanges_ = 0;
  bool stop_seen_ = false;
};

}  // namespace pmnet
