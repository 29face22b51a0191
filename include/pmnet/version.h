/// \file
/// The version of the library.
#pragma once
#include <string>

namespace pmnet {

/// Version of the library that the program runs with, such as "0.1.0".
std::string version();

}  // namespace pmnet
