// Limits that a container puts on its processes, as the Linux control groups state them (versions 1 and 2).
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

namespace pmnet {

struct CgroupLimits {
  std::optional<double> cores;             // CPU time per time
  std::optional<int64_t> memory_bytes;     // the most that may be used
  std::optional<int64_t> available_bytes;  // of that, what is free or holds file pages that can be dropped
};

// `root` is "/" but in tests. The tightest limit of this process's groups and their parents.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace pmnet
