// `pmnet bench`: which measurements to make, and what came out.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/runner.h"

namespace pmnet {

struct BenchPlan {
  BenchCase base;  // what all measurements have in common: preset, chunk, seconds, iterations
  std::vector<std::string> what{"train"};
  std::vector<int64_t> contexts{2048}, batches{1};
  std::vector<std::string> weights{"float32"};  // decode only
  std::vector<std::string> skip;                // of composite, transformer, mamba
  std::vector<std::string> against;             // "label=command": rivals
  bool peers = false;                           // Hugging Face's models are rivals too
  int rounds = 3;
  int threads = 1;
};

struct BenchRow {
  std::string label, what;
  int64_t context = 0, batch = 0;
  Spread rate;       // bytes/s
  double share = 0;  // of the roofline (GEMM rate, or memory bandwidth when decoding); 0: unknown
  int64_t peak_bytes = 0;
  std::string error;
};

struct BenchReport {
  int threads = 1;
  BenchResult machine;  // medians over the rounds
  std::vector<BenchRow> rows;
};

// Everything that is measured, in the order of a round: the machine first, then our models, then the rivals. UserError
// for a plan that makes no sense.
std::vector<BenchCandidate> candidates_of(const BenchPlan& plan);

BenchReport run_bench(const BenchPlan& plan, const std::function<void(int round, const BenchCandidate&)>& before_each);

// The roofline of a case on a machine with these rates, in bytes/s.
double limit_of(const BenchCase& bench_case, const BenchResult& machine);

}  // namespace pmnet
