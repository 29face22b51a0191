// Compares a model with recorded outputs: a folder with config.json, model.safetensors, expected.safetensors,
// stream.json and optionally training.safetensors (docs/reference/parity.md describes the layout).
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace pmnet {

struct ParityRow {
  std::string item;  // "logits", "grad.model.norm.weight", ...
  double error = 0;  // the largest found
  double limit = 0;
  std::string detail;  // where the error is measured in: "max-abs", "of the largest entry", ...
  bool holds() const { return error <= limit; }  // false for NaN
};

// Every item that the folder records, through one implementation of the ops.
std::vector<ParityRow> check_parity(const std::filesystem::path& folder, ops::Implementation implementation,
                                    const at::Device& device = at::kCPU);

}  // namespace pmnet
