// Hugging Face's Llama and Mamba of the same size as rivals, run by bench/peers.py in a virtual environment of its own.
#pragma once
#include <vector>

#include "bench/runner.h"

namespace pmnet {

// Makes the environment when it is not there yet. Needs the source folder, which the launcher names in PMNET_HOME.
std::vector<Contestant> peer_contestants(const BenchCase& base, const std::vector<int64_t>& contexts, int threads);

}  // namespace pmnet
