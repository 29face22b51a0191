// How a launcher such as torchrun describes the ranks of a run to each process.
#pragma once
#include <string>

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

// All ranks are on one machine and need not be reachable from others.
bool is_loopback(const std::string& address);

// Reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and torchrun's own variables; incomplete or invalid values throw
// UserError.
Launch launch_from_environment();

}  // namespace pmnet
