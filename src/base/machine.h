#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace pmnet {

// What the hardware offers to this process.
struct Machine {
  std::string processor;                      // as the kernel names it
  int cores = 0;                              // that this process may run on
  int64_t memory_bytes = 0;                   // of the machine, or of the container
  int64_t available_bytes = 0;                // of those, without swapping
  std::vector<std::string> instruction_sets;  // those that matter for our kernels and oneDNN's, weakest first
  bool has(const std::string& instruction_set) const;
  bool has_bf16_products() const;  // bf16 multiply-add in hardware
};
Machine query_machine();

// The same from the text of /proc/cpuinfo and /proc/meminfo, for tests; leaves `cores` at zero.
Machine parse_machine(const std::string& cpuinfo, const std::string& meminfo);

// Cores that this process may run on at once: its affinity and the CPU quota of its container.
int usable_cores();
// `wanted`, but no more than usable_cores(), with a warning: threads that share a core wait for each other at every
// barrier, which makes them many times slower.
int limit_threads(int64_t wanted);

// The most memory this process has had resident at once.
int64_t peak_memory_bytes();
// What it has resident now.
int64_t resident_bytes();

}  // namespace pmnet
