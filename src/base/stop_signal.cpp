#include "base/stop_signal.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <initializer_list>

namespace pmnet {
namespace {

constexpr double kDuplicateSeconds = 1;

volatile std::sig_atomic_t signals_seen = 0;
volatile double first_signal_at = 0;
const char* stop_notice = "";
struct sigaction previous_int, previous_term;

// Only calls that are safe in a signal handler.
double monotonic_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void print_notice() {
  const int saved_errno = errno;
  for (const char* text : {"\n", stop_notice, "\n"})
    if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  errno = saved_errno;
}

void on_signal(int number) {
  if (signals_seen == 0) {
    first_signal_at = monotonic_seconds();
    signals_seen = 1;
    print_notice();
  } else if (monotonic_seconds() - first_signal_at >= kDuplicateSeconds) {
    ::_exit(128 + number);
  }
}

}  // namespace

StopSignals::StopSignals(const char* notice) {
  signals_seen = 0;
  stop_notice = notice;
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_int);
  sigaction(SIGTERM, &action, &previous_term);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &previous_int, nullptr);
  sigaction(SIGTERM, &previous_term, nullptr);
}

bool StopSignals::requested() { return signals_seen > 0; }

}  // namespace pmnet
