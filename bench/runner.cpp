#include "bench/runner.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "base/error.h"

namespace pmnet {

namespace {

struct Output {
  int exit_code;
  std::string text;
};

Output run_shell(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) fail("cannot start '{}'", command);
  Output output;
  std::array<char, 4096> buffer;
  while (const size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) output.text.append(buffer.data(), got);
  const int status = pclose(pipe);
  output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

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
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return {n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2, values.front(), values.back()};
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

std::vector<Measured> run_interleaved(const std::vector<Contestant>& contestants, int rounds,
                                      const std::function<void(int, const Contestant&)>& before_each) {
  std::vector<Measured> all;
  for (const Contestant& c : contestants) all.push_back({c.label, {}, ""});
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < contestants.size(); ++i) {
      if (!all[i].error.empty()) continue;
      before_each(round, contestants[i]);
      const Output output = run_shell(contestants[i].command);
      const std::string line = json_line(output.text);
      if (output.exit_code != 0 || line.empty())
        all[i].error = fmt::format("exit code {}: {}", output.exit_code, last_line(output.text));
      else
        all[i].rounds.push_back(parse_bench_result(line, contestants[i].label));
    }
  }
  return all;
}

std::string command_for(const BenchCase& c, int threads) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  return fmt::format(
      "'{}' --threads {} bench-case --what {} --preset {} --arch {} --path {} --weights {} --context {} --batch {} "
      "--chunk {} --seconds {} --iterations {}",
      self, threads, c.what, c.preset, c.arch, c.path, c.weights, c.context, c.batch, c.chunk, c.seconds, c.iterations);
}

}  // namespace pmnet
