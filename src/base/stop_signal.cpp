#include "base/stop_signal.h"

#include <unistd.h>

#include <csignal>

namespace pmnet {
namespace {

volatile std::sig_atomic_t signals_seen = 0;
struct sigaction previous_int, previous_term;

void on_signal(int number) {
  if (signals_seen > 0) ::_exit(128 + number);
  signals_seen = 1;
}

}  // namespace

StopSignals::StopSignals() {
  signals_seen = 0;
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
