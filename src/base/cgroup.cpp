#include "base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace pmnet {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kUnlimited = int64_t{1} << 60;  // version 1 writes its largest page-aligned number

// The number at the start of a file; empty for "max" and for a file that is not there.
std::optional<int64_t> read_number(const fs::path& file) {
  int64_t number = 0;
  std::ifstream stream(file);
  return stream >> number ? std::optional(number) : std::nullopt;
}

int64_t stat_value(const fs::path& file, const std::string& key) {
  std::ifstream stream(file);
  std::string name;
  for (int64_t value = 0; stream >> name >> value;)
    if (name == key) return value;
  return 0;
}

template <typename T>
void tighten(std::optional<T>& limit, T value) {
  limit = limit ? std::min(*limit, value) : value;
}

void tighten_memory(CgroupLimits& limits, const fs::path& group, const char* most, const char* used,
                    const char* file_pages) {
  const std::optional<int64_t> limit = read_number(group / most);
  if (!limit || *limit >= kUnlimited) return;
  tighten(limits.memory_bytes, *limit);
  const int64_t in_use = read_number(group / used).value_or(0) - stat_value(group / "memory.stat", file_pages);
  tighten(limits.available_bytes, std::clamp<int64_t>(*limit - in_use, 0, *limit));
}

void tighten_version2(CgroupLimits& limits, const fs::path& group) {
  std::ifstream stream(group / "cpu.max");  // "200000 100000", or "max 100000"
  double quota = 0, period = 0;
  if (stream >> quota >> period && period > 0) tighten(limits.cores, quota / period);
  tighten_memory(limits, group, "memory.max", "memory.current", "inactive_file");
}

void tighten_version1(CgroupLimits& limits, const fs::path& group) {
  const auto quota = read_number(group / "cpu.cfs_quota_us"), period = read_number(group / "cpu.cfs_period_us");
  if (quota && period && *quota > 0 && *period > 0)
    tighten(limits.cores, static_cast<double>(*quota) / static_cast<double>(*period));
  tighten_memory(limits, group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
}

// The group and its parents up to the mount point. In a container the path may be the host's: then only the mount
// point exists, and it is the container's own group.
std::vector<fs::path> with_parents(const fs::path& mount, const fs::path& group) {
  std::vector<fs::path> all{mount};
  fs::path folder = mount;
  for (const fs::path& part : group.relative_path()) all.push_back(folder /= part);
  return all;
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  const fs::path mounts = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");  // "0::/path" or "4:cpu,cpuacct:/path"
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty())
      for (const fs::path& folder : with_parents(mounts, group)) tighten_version2(limits, folder);
    std::istringstream names(controllers);
    for (std::string name; std::getline(names, name, ',');)
      if (name == "cpu" || name == "memory")
        for (const fs::path& folder : with_parents(mounts / name, group)) tighten_version1(limits, folder);
  }
  return limits;
}

}  // namespace pmnet
