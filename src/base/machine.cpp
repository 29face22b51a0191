#include "base/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/cgroup.h"
#include "base/standard_streams.h"

namespace pmnet {

namespace {

constexpr const char* kInstructionSets[] = {
    "sse4_2",   "avx",         "f16c",        "fma",         "avx2",     "avx_vnni", "avx512f",  "avx512bw",
    "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
    "asimd",    "asimdhp",     "bf16",        "i8mm",        "sve",      "sve2",     "svebf16"};

std::string read_file(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// What follows "key :" on the first line that starts with the key, without the blanks around it.
std::string value_of(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    const size_t rest_of_key = line.find_first_not_of(" \t", key.size());
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (rest_of_key == colon && begin != std::string::npos) return line.substr(begin);
  }
  return "";
}

int64_t kilobytes_of(const std::string& meminfo, const std::string& key) {
  int64_t kilobytes = 0;
  std::istringstream(value_of(meminfo, key)) >> kilobytes;
  return kilobytes;
}

}  // namespace

bool Machine::has(const std::string& instruction_set) const {
  return std::find(instruction_sets.begin(), instruction_sets.end(), instruction_set) != instruction_sets.end();
}

bool Machine::has_bf16_products() const {
  return has("avx512_bf16") || has("amx_bf16") || has("bf16") || has("svebf16");
}

Machine parse_machine(const std::string& cpuinfo, const std::string& meminfo) {
  Machine machine;
  machine.processor = value_of(cpuinfo, "model name");
  std::istringstream words(value_of(cpuinfo, "flags") + " " + value_of(cpuinfo, "Features"));
  const std::vector<std::string> flags{std::istream_iterator<std::string>(words), {}};
  for (const char* name : kInstructionSets)
    if (std::find(flags.begin(), flags.end(), name) != flags.end()) machine.instruction_sets.push_back(name);
  machine.memory_bytes = kilobytes_of(meminfo, "MemTotal") * 1024;
  machine.available_bytes = kilobytes_of(meminfo, "MemAvailable") * 1024;
  return machine;
}

int usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;  // fails with more cores than the set holds
  const int cores = known ? CPU_COUNT(&allowed) : static_cast<int>(std::thread::hardware_concurrency());
  const double quota = read_cgroup_limits().cores.value_or(cores);
  return std::max(1, std::min(cores, static_cast<int>(std::ceil(quota))));
}

int limit_threads(int64_t wanted) {
  const int cores = usable_cores();
  if (wanted > cores)
    print_error("warning: {} threads are asked for and {} cores are usable; using {}", wanted, cores, cores);
  return static_cast<int>(std::min<int64_t>(wanted, cores));
}

int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

int64_t resident_bytes() {
  int64_t total = 0, resident = 0;  // pages
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

Machine query_machine() {
  Machine machine = parse_machine(read_file("/proc/cpuinfo"), read_file("/proc/meminfo"));
  machine.cores = usable_cores();
  const CgroupLimits limits = read_cgroup_limits();
  machine.memory_bytes = std::min(machine.memory_bytes, limits.memory_bytes.value_or(machine.memory_bytes));
  machine.available_bytes = std::min(machine.available_bytes, limits.available_bytes.value_or(machine.available_bytes));
  return machine;
}

}  // namespace pmnet
