#pragma once
#include <string>

#include "base/error.h"

namespace pmnet {

// The sentence of the UserError that `action` throws, or a note that it threw none.
template <typename Action>
std::string user_error_of(const Action& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "(no error)";
}

}  // namespace pmnet
