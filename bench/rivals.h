// Other programs to compare with: any command that prints the JSON line of a BenchResult, and Hugging Face's Llama and
// Mamba of the same configuration as our baselines, run by bench/peers.py in its own virtual environment.
#pragma once
#include <string>
#include <vector>

#include "bench/bench.h"

namespace pmnet {

BenchCandidate parse_rival(const std::string& text);  // "label=command"; UserError otherwise

// Makes the environment when it is missing. Needs the source folder, which the launcher names in PMNET_HOME.
std::vector<BenchCandidate> hugging_face_rivals(const BenchPlan& plan);

}  // namespace pmnet
