// What was measured against what was possible.
#pragma once
#include <string>
#include <vector>

#include "bench/runner.h"

namespace pmnet {

struct BenchRow {
  std::string label, what;
  int64_t context = 0, batch = 0;
  Spread rate;       // bytes/s
  double share = 0;  // of what the machine's products (or, decoding, its memory) would allow; 0: no limit
  int64_t peak_bytes = 0;
  std::string error;
};

// The limit of a case on a machine with these rates, in bytes/s.
double limit_of(const BenchCase& bench_case, const BenchResult& machine);

std::string bench_table(const std::vector<BenchRow>& rows);
std::string bench_json(const std::vector<BenchRow>& rows, const BenchResult& machine, int threads);
void plot_bench(const std::vector<BenchRow>& rows, const std::string& file);

}  // namespace pmnet
