#include "train/launch.h"

#include <charconv>
#include <cstdlib>
#include <string>

#include "base/error.h"

namespace pmnet {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int number(const char* name, int absent, int low, int high) {
  const std::string text = variable(name);
  if (text.empty()) return absent;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    fail("the environment variable {} is '{}', expected a number from {} to {}", name, text, low, high);
  return value;
}

}  // namespace

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

Launch launch_from_environment() {
  constexpr int kMaxRanks = 1 << 16;
  Launch launch;
  launch.world = number("WORLD_SIZE", 1, 1, kMaxRanks);
  if (launch.world == 1) return launch;
  for (const char* name : {"RANK", "MASTER_ADDR", "MASTER_PORT"})
    if (variable(name).empty())
      fail(
          "WORLD_SIZE is {} and {} is not set; start the ranks with torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR "
          "and MASTER_PORT",
          launch.world, name);
  launch.rank = number("RANK", 0, 0, launch.world - 1);
  launch.local_rank = number("LOCAL_RANK", 0, 0, launch.world - 1);
  launch.address = variable("MASTER_ADDR");
  launch.local_world = number("LOCAL_WORLD_SIZE", is_loopback(launch.address) ? launch.world : 1, 1, launch.world);
  launch.port = number("MASTER_PORT", 0, 1, 65'535);
  launch.attempt = variable("TORCHELASTIC_RESTART_COUNT");
  launch.store_given = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  return launch;
}

}  // namespace pmnet
