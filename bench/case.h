// One measurement in one process: what `pmnet bench` starts again and again, interleaved, and what any rival can
// imitate by printing the same JSON.
#pragma once
#include <cstdint>
#include <string>

#include "config/model_config.h"

namespace pmnet {

struct BenchCase {
  std::string what = "train";                // train | forward | prefill | decode | limits
  std::string preset = "119m";               //
  Architecture arch = Architecture::kPmnet;  // a baseline has as many parameters as the preset
  std::string path = "fast";                 // fast | reference
  std::string weights = "float32";           // float32 | bf16 | int8, decode only
  int64_t context = 2048;                    // bytes per sequence; for decode: bytes read before the first timed step
  int64_t batch = 1;
  int64_t chunk = 0;       // train only; 0: one pass
  double seconds = 2.0;    // keep measuring at least this long...
  int64_t iterations = 1;  // ...and at least this often, after one warm-up
};

struct BenchResult {
  double bytes_per_second = 0;      // median over the iterations
  int64_t peak_bytes = 0;           // of the whole process
  double bytes_per_cpu_second = 0;  // of all threads; says more where other programs run beside it
  // Of a `limits` case, and the last one of `decode` too:
  double gemm_flops = 0;   // the larger of the two below
  double cube_flops = 0;   // 2,048 x 2,048 x 2,048
  double shape_flops = 0;  // over the model's own products
  double read_bytes_per_second = 0;
};

// The configuration a case measures.
ModelConfig config_of(const BenchCase& bench_case);

// Parameters as stored for decoding, in bytes: what one decoding step has to read.
double weight_bytes(const ModelConfig& config, const std::string& weights);

BenchResult run_case(const BenchCase& bench_case);

std::string to_json(const BenchResult& result);
BenchResult parse_bench_result(const std::string& json_line, const std::string& where);

}  // namespace pmnet
