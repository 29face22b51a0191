#pragma once
#include <string>

namespace pmnet {

// What CPUID says about AMX tiles.
struct AmxReport {
  bool claimed = false;      // CPUID.7.0:EDX[24]: the CPU says it has tiles
  bool has_palette = false;  // leaf 0x1D exists and names a palette: tiles can be configured
  bool broken() const { return claimed && !has_palette; }
};
AmxReport query_amx();

// Some virtual machines advertise AMX without a tile palette; oneDNN then dies with SIGILL in bf16 products. Caps
// oneDNN below AMX on such machines unless the user chose a cap. Must run before the first oneDNN call: first line of
// every main. Returns the cap it set, empty if none was needed.
std::string guard_against_broken_amx(const AmxReport& report = query_amx());

// The decision alone, for tests: the cap for this report, given what the user set (null: nothing).
std::string amx_cap(const AmxReport& report, const char* user_choice);

}  // namespace pmnet
