#include "base/cgroup.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temporary_folder.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST(CgroupLimits, NoGroupsNoLimits) {
  const TemporaryFolder root;
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_FALSE(limits.cores || limits.memory_bytes || limits.available_bytes);
}

TEST(CgroupLimits, Version2TakesTheTightestOfAGroupAndItsParents) {
  const TemporaryFolder root;
  const fs::path mount = root / "sys/fs/cgroup";
  write(root / "proc/self/cgroup", "0::/slice/job\n");
  write(mount / "slice/cpu.max", "150000 100000\n");
  write(mount / "slice/memory.max", "max\n");
  write(mount / "slice/job/cpu.max", "max 100000\n");
  write(mount / "slice/job/memory.max", "1000000\n");
  write(mount / "slice/job/memory.current", "700000\n");
  write(mount / "slice/job/memory.stat", "anon 500000\ninactive_file 200000\n");
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_EQ(limits.cores, 1.5);
  EXPECT_EQ(limits.memory_bytes, 1'000'000);
  EXPECT_EQ(limits.available_bytes, 500'000);
}

TEST(CgroupLimits, Version1AndAPathOfTheHost) {
  const TemporaryFolder root;
  const fs::path mount = root / "sys/fs/cgroup";
  write(root / "proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n");
  write(mount / "cpu/cpu.cfs_quota_us", "50000\n");
  write(mount / "cpu/cpu.cfs_period_us", "100000\n");
  write(mount / "memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(read_cgroup_limits(root.path()).cores, 0.5);
  EXPECT_FALSE(read_cgroup_limits(root.path()).memory_bytes) << "the largest number means no limit";
  write(mount / "cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_FALSE(read_cgroup_limits(root.path()).cores);
}

}  // namespace
}  // namespace pmnet
