// A BenchReport as text, JSON and a picture.
#pragma once
#include <string>

#include "bench/bench.h"

namespace pmnet {

std::string bench_table(const BenchReport& report);
std::string bench_json(const BenchReport& report);
void plot_bench(const BenchReport& report, const std::string& file);

}  // namespace pmnet
