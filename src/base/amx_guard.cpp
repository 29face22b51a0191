#include "base/amx_guard.h"

#include <cstdio>
#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pmnet {

namespace {
constexpr const char* kVariable = "ONEDNN_MAX_CPU_ISA";
// The highest tier below AMX. Only an upper bound: a weaker CPU keeps its own level.
constexpr const char* kBelowAmx = "AVX512_CORE_FP16";
}  // namespace

AmxReport query_amx() {
  AmxReport report;
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const unsigned max_leaf = __get_cpuid_max(0, nullptr);
  if (max_leaf >= 7 && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) report.claimed = (edx >> 24) & 1u;
  if (max_leaf >= 0x1D && __get_cpuid_count(0x1D, 0, &eax, &ebx, &ecx, &edx)) report.has_palette = eax != 0;
#endif
  return report;
}

std::string amx_cap(const AmxReport& report, const char* user_choice) {
  return report.broken() && user_choice == nullptr ? kBelowAmx : "";
}

std::string guard_against_broken_amx(const AmxReport& report) {
  const std::string cap = amx_cap(report, std::getenv(kVariable));
  if (!cap.empty()) {
    setenv(kVariable, cap.c_str(), /*overwrite=*/0);
    std::fprintf(stderr, "pmnet: this machine claims AMX but has no tile palette; %s=%s set\n", kVariable, cap.c_str());
  }
  return cap;
}

}  // namespace pmnet
