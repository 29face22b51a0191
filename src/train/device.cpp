#include "train/device.h"

#include <ATen/ATen.h>

#include "base/error.h"

namespace pmnet {

void require_device(const at::Device& device) {
  if (device.is_cuda() && !at::hasCUDA())
    fail("the device is '{}', but LibTorch finds no CUDA device; use 'cpu', or configure with -DPMNET_CUDA=ON",
         device.str());
}

void move_model(LanguageModel& model, const at::Device& device) {
  require_device(device);
  model.visit([&](const std::string&, Tensor& parameter) { parameter = parameter.to(device); });
}

}  // namespace pmnet
