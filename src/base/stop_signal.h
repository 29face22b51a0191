#pragma once

namespace pmnet {

// While alive, the first SIGINT or SIGTERM prints `notice` and sets a flag that long-running work polls at safe points.
// A second signal at least a second later ends the process at once with 128 + its number; earlier ones are taken for
// duplicates, as 'timeout' and terminals send one to the process and one to its group.
class StopSignals {
 public:
  // `notice` must outlive the object.
  explicit StopSignals(const char* notice = "stopping; press again to exit at once");
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  static bool requested();
};

}  // namespace pmnet
