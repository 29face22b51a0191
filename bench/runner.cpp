#include "bench/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/statistics.h"
#include "base/subprocess.h"

namespace pmnet {

namespace {

// The last line that looks like a JSON object.
std::string json_line(const std::string& text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t newline = text.rfind('\n', end - 1);
    const size_t begin = newline == std::string::npos ? 0 : newline + 1;
    if (begin < end && text[begin] == '{') return text.substr(begin, end - begin);
    if (newline == std::string::npos) break;
    end = newline;
  }
  return "";
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::vector<double> values_of(const std::vector<BenchResult>& rounds, double BenchResult::* what) {
  std::vector<double> values;
  for (const BenchResult& r : rounds) values.push_back(r.*what);
  return values;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {pmnet::median(values), *least, *most};
}

Spread Measured::rate() const { return spread_of(values_of(rounds, &BenchResult::bytes_per_second)); }

double Measured::median(double BenchResult::* what) const { return spread_of(values_of(rounds, what)).median; }

double Measured::share(const std::function<double(const BenchResult&)>& limit) const {
  std::vector<double> shares;
  for (const BenchResult& r : rounds) shares.push_back(r.bytes_per_second / limit(r));
  return spread_of(shares).median;
}

int64_t Measured::peak_bytes() const {
  int64_t peak = 0;
  for (const BenchResult& r : rounds) peak = std::max(peak, r.peak_bytes);
  return peak;
}

std::vector<Measured> run_interleaved(const std::vector<BenchCandidate>& candidates, int rounds,
                                      const std::function<void(int, const BenchCandidate&)>& before_each) {
  std::vector<Measured> all;
  for (const BenchCandidate& candidate : candidates) all.push_back({candidate, {}, ""});
  for (int round = 0; round < rounds; ++round) {
    for (Measured& measured : all) {
      if (!measured.error.empty()) continue;
      before_each(round, measured.candidate);
      const ChildResult child = run_child(measured.candidate.command, {.err = ChildStream::kJoin});
      const std::string line = json_line(child.output);
      if (!child.succeeded() || line.empty())
        measured.error = fmt::format("exit code {}: {}", child.exit_code, last_line(child.output));
      else
        measured.rounds.push_back(parse_bench_result(line, measured.candidate.label));
    }
  }
  return all;
}

std::vector<std::string> command_for(const BenchCase& c, int threads) {
  return {std::filesystem::read_symlink("/proc/self/exe").string(),
          "--threads",
          std::to_string(threads),
          "bench-case",
          "--what",
          c.what,
          "--preset",
          c.preset,
          "--arch",
          enum_name(c.arch),
          "--path",
          c.path,
          "--format",
          c.weights,
          "--context",
          std::to_string(c.context),
          "--batch",
          std::to_string(c.batch),
          "--chunk",
          std::to_string(c.chunk),
          "--seconds",
          fmt::format("{}", c.seconds),
          "--iterations",
          std::to_string(c.iterations)};
}

}  // namespace pmnet
