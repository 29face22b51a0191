#pragma once
#include <unistd.h>

namespace pmnet {

// A port for a test's rendezvous: others in this process get the ones after it, other processes start elsewhere.
inline int free_port() {
  static int next = 41'000 + static_cast<int>(::getpid() % 10'000);
  return next++;
}

}  // namespace pmnet
