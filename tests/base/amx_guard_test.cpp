#include "base/amx_guard.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace pmnet {
namespace {

constexpr const char* kVariable = "ONEDNN_MAX_CPU_ISA";
constexpr AmxReport kNoAmx{.claimed = false, .has_palette = false};
constexpr AmxReport kWorkingAmx{.claimed = true, .has_palette = true};
constexpr AmxReport kBrokenAmx{.claimed = true, .has_palette = false};

TEST(AmxGuard, CapsOnlyAClaimWithoutPalette) {
  EXPECT_EQ(amx_cap(kNoAmx, nullptr), "");
  EXPECT_EQ(amx_cap({.claimed = false, .has_palette = true}, nullptr), "");
  EXPECT_EQ(amx_cap(kWorkingAmx, nullptr), "");
  EXPECT_EQ(amx_cap(kBrokenAmx, nullptr), "AVX512_CORE_FP16");
}

TEST(AmxGuard, ChoiceOfTheUserWins) {
  EXPECT_EQ(amx_cap(kBrokenAmx, "AVX2"), "");
  EXPECT_EQ(amx_cap(kBrokenAmx, ""), "");
}

// The variable belongs to the whole process, so each case runs in a child of its own.
[[noreturn]] void guard_in_child(const AmxReport& report, const char* user_choice, const std::string& expected) {
  unsetenv(kVariable);
  if (user_choice != nullptr) setenv(kVariable, user_choice, /*overwrite=*/1);
  guard_against_broken_amx(report);
  const char* value = std::getenv(kVariable);
  std::_Exit((value == nullptr ? "" : std::string(value)) == expected ? 0 : 1);
}

TEST(AmxGuardInChild, SetsTheVariableOnABrokenMachine) {
  EXPECT_EXIT(guard_in_child(kBrokenAmx, nullptr, "AVX512_CORE_FP16"), testing::ExitedWithCode(0), "tile palette");
}

TEST(AmxGuardInChild, LeavesTheVariableOfTheUser) {
  EXPECT_EXIT(guard_in_child(kBrokenAmx, "AVX2", "AVX2"), testing::ExitedWithCode(0), "^$");
}

TEST(AmxGuardInChild, LeavesGoodMachinesAlone) {
  EXPECT_EXIT(guard_in_child(kWorkingAmx, nullptr, ""), testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(guard_in_child(kNoAmx, nullptr, ""), testing::ExitedWithCode(0), "^$");
}

TEST(AmxGuard, TestProgramsRunIt) {
  if (!query_amx().broken()) GTEST_SKIP() << "this machine needs no cap";
  EXPECT_NE(std::getenv(kVariable), nullptr);
}

}  // namespace
}  // namespace pmnet
