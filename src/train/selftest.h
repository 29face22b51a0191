// Checks a device: that it computes what the CPU computes, to the bit where phases are concerned, and how fast.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "train/parity.h"

namespace pmnet {

struct SelftestSpeed {
  std::string item;  // "training step, 1m, batch 8 x 512"
  double bytes_per_second = 0;
};

struct SelftestReport {
  std::string device;           // "cpu, 2 threads", "cuda:0, NVIDIA ..."
  std::vector<ParityRow> rows;  // in the order they were checked
  std::vector<SelftestSpeed> speeds;

  bool holds() const;
};

// `fixtures`: folders with recorded outputs, see train/parity.h; may be empty. `before` is called with the name of each
// part. UserError when LibTorch has no such device.
SelftestReport run_selftest(const at::Device& device, const std::vector<std::filesystem::path>& fixtures,
                            const std::function<void(const std::string& part)>& before);

}  // namespace pmnet
