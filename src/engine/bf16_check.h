#pragma once
#include <string>

namespace pmnet {

// How far oneDNN has to be held back before a bf16 product works on this machine.
enum class Bf16Support { kAsIs, kCapped, kWithoutOneDnn, kNone };

// Runs one bf16 product in a child process, where an illegal instruction or a wrong result does no harm: first as the
// process stands, then capped to AVX512_CORE_BF16, then without oneDNN. Changes nothing in this process.
Bf16Support check_bf16();

// Brings this process to the state found by check_bf16. The cap takes effect only before the first oneDNN call.
void apply_bf16_support(Bf16Support support);

std::string describe(Bf16Support support);

}  // namespace pmnet
