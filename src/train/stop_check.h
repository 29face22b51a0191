#pragma once
#include <chrono>

#include "base/stop_signal.h"
#include "train/process_group.h"

namespace pmnet {

// Thrown where work is interrupted; the caller that started it catches it.
struct StopRequested {};

// Whether this rank should stop: a signal came, here or to another rank.
class StopCheck {
 public:
  explicit StopCheck(ProcessGroup& group) : group_(group) {}

  bool requested() {
    if (requested_) return true;
    requested_ = StopSignals::requested();
    if (requested_) {
      group_.announce_stop();
    } else if (const auto now = std::chrono::steady_clock::now(); now >= next_question_) {
      next_question_ = now + std::chrono::milliseconds(200);
      requested_ = group_.stop_announced();
    }
    return requested_;
  }
  // The same as a signal, from the program itself.
  void request() {
    requested_ = true;
    group_.announce_stop();
  }
  void throw_if_requested() {
    if (requested()) throw StopRequested{};
  }

 private:
  ProcessGroup& group_;
  bool requested_ = false;
  std::chrono::steady_clock::time_point next_question_{};
};

}  // namespace pmnet
