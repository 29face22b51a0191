// Whether throughput depends on the position in a text: one session reads a long text, and at regular positions its
// passes are timed in turns with those of a fresh session, so that other load on the machine affects both alike.
//
// Usage: throughput [PRESET [BYTES [decode]]]; with `decode` the timed passes read one byte each.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "base/amx_guard.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/statistics.h"
#include "engine/session.h"
#include "model/model_folder.h"
#include "report/progress.h"

namespace pmnet {
namespace {

constexpr int64_t kPass = 1024, kPasses = 24, kStops = 8;
constexpr int64_t kLeastBytes = (kStops + 1) * kPasses * kPass;  // so that timed passes of two stops do not overlap

void run(const std::string& preset, int64_t bytes, bool decode) {
  constexpr uint64_t kSeed = 1;
  const std::shared_ptr<const LanguageModel> model = load_or_make_model(preset, kSeed).model;
  const std::shared_ptr<const Engine> engine = make_engine(*model);
  at::manual_seed(kSeed);
  const at::Tensor text = at::randint(256, {1, kPass}, at::kLong);
  const auto time_pass = [&](Session& session) {
    const double start = steady_seconds();
    if (decode)
      for (const at::Tensor& byte : text.split(1, /*dim=*/1)) session.read(byte);
    else
      session.read(text);
    return steady_seconds() - start;
  };
  Session far(engine);
  const Session start = far.fork();
  fmt::print("{:>9}  {:>10}  {:>10}  {:>6}  {:>9}\n", "position", "time there", "at start", "ratio", "resident");
  for (int64_t stop = 0; stop <= kStops; ++stop) {
    // The timed passes are the last ones before the stop.
    const int64_t at = std::max(bytes / kStops * stop, kPasses * kPass);
    while (far.position() < at - kPasses * kPass) far.read(text);
    Session near = start.fork();
    std::vector<double> there, at_start, ratios;
    for (int64_t pass = 0; pass < kPasses; ++pass) {
      there.push_back(time_pass(far));
      at_start.push_back(time_pass(near));
      ratios.push_back(there.back() / at_start.back());
    }
    fmt::print("{:>9}  {:>8.1f}ms  {:>8.1f}ms  {:>6.3f}  {:>6.1f} MB\n", far.position(), 1e3 * median(there),
               1e3 * median(at_start), median(ratios), static_cast<double>(resident_bytes()) / 1e6);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace pmnet

int main(int argc, char** argv) {
  const int64_t bytes = argc > 2 ? std::atoll(argv[2]) : 524288;
  const std::string_view how = argc > 3 ? argv[3] : "";
  if (argc > 4 || (argc > 3 && how != "decode") || bytes < pmnet::kLeastBytes) {
    fmt::print(stderr, "usage: throughput [PRESET [BYTES [decode]]], at least {} bytes\n", pmnet::kLeastBytes);
    return 2;
  }
  try {
    pmnet::guard_against_broken_amx();
    pmnet::run(argc > 1 ? argv[1] : "30m", bytes, how == "decode");
  } catch (const pmnet::UserError& error) {
    fmt::print(stderr, "throughput: {}\n", error.what());
    return 2;
  }
  return 0;
}
