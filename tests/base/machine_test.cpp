#include "base/machine.h"

#include <gtest/gtest.h>

namespace pmnet {
namespace {

TEST(Machine, ReadsX86) {
  const Machine machine = parse_machine(
      "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nmodel\t\t: 7\nflags\t\t: fpu avx avx2 avx512_bf16x fma\n",
      "MemTotal:        2048 kB\nMemFree:          1 kB\nMemAvailable:    1024 kB\n");
  EXPECT_EQ(machine.processor, "Some CPU @ 2.0GHz");
  EXPECT_EQ(machine.instruction_sets, (std::vector<std::string>{"avx", "fma", "avx2"}));
  EXPECT_EQ(machine.memory_bytes, 2048 * 1024);
  EXPECT_EQ(machine.available_bytes, 1024 * 1024);
  EXPECT_TRUE(machine.has("avx2"));
  EXPECT_FALSE(machine.has_bf16_products());
}

TEST(Machine, ReadsArm) {
  const Machine machine = parse_machine("processor : 0\nFeatures : fp asimd i8mm bf16\n", "");
  EXPECT_EQ(machine.processor, "");
  EXPECT_EQ(machine.instruction_sets, (std::vector<std::string>{"asimd", "bf16", "i8mm"}));
  EXPECT_TRUE(machine.has_bf16_products());
  EXPECT_EQ(machine.memory_bytes, 0);
}

TEST(Machine, MoreThreadsThanCoresAreRefusedWithAWarning) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(limit_threads(1), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  EXPECT_EQ(limit_threads(usable_cores() + 7), usable_cores());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("cores are usable"), std::string::npos);
}

TEST(Machine, KnowsThisOne) {
  const Machine machine = query_machine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_bytes, 0);
  EXPECT_LE(machine.available_bytes, machine.memory_bytes);
}

}  // namespace
}  // namespace pmnet
