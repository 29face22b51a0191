#include "base/clock.h"

#include <chrono>

namespace pmnet {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace pmnet
