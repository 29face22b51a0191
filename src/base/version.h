#pragma once
#include <string>

namespace pmnet {

std::string version();            // "0.1.0"
std::string source_revision();    // `git describe` at the last build; empty outside a repository
std::string build_description();  // compiler and build type, "GNU 12.2.0, Release"

}  // namespace pmnet
