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

#include "train/launch.h"

namespace pmnet {

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
  bool is_rank0() const { return launch_.rank == 0; }
  const Launch& launch() const { return launch_; }

  // Sums over the ranks, in place; every rank gets the same bits. The function waits for the sum.
  using Wait = std::function<void()>;
  Wait start_sum(at::Tensor tensor);
  void sum(at::Tensor tensor) { start_sum(std::move(tensor))(); }

  bool any(bool mine);  // whether it is true on some rank

  // Tensors of all ranks, in order of the ranks; shapes may differ.
  std::vector<at::Tensor> gather(const at::Tensor& tensor);

  // Texts of all ranks. A rank may be minutes behind another, when it packs data or saves; one that hangs for longer
  // than the time-out is PeerLost.
  std::vector<std::string> all_gather_text(const std::string& text);
  // UserError on every rank unless the value is the same on all of them.
  void require_equal(const std::string& what, const std::string& value);
  // Runs on rank 0 while the others wait; an error there is a UserError on the others.
  void run_on_rank0(const std::function<void()>& action);
  // Runs on every rank; an error on one is a UserError on the others.
  void run_everywhere(const std::function<void()>& action);

  // A request to stop that one rank has received and the others should learn of soon.
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
