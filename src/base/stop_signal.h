#pragma once

namespace pmnet {

// While alive, the first SIGINT or SIGTERM is a wish to stop, which long work looks at where stopping is clean. The
// second ends the process at once with 128 + its number.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  static bool requested();
};

}  // namespace pmnet
