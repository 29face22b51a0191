#include "train/device.h"

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "base/error.h"

namespace pmnet {

void require_device(const at::Device& device) {
  if (!device.is_cuda() || at::hasCUDA()) return;
  if (at::detail::getCUDAHooks().hasCUDART())  // LibTorch's CUDA part is loaded
    fail(
        "the device is '{}', but this machine has no CUDA device that LibTorch can use; use 'cpu', or check the driver "
        "with nvidia-smi",
        device.str());
  fail(
      "the device is '{}', but this build has no CUDA and so finds no CUDA device; use 'cpu', or configure with "
      "-DPMNET_CUDA=ON",
      device.str());
}

void move_model(LanguageModel& model, const at::Device& device) {
  require_device(device);
  model.visit([&](const std::string&, Tensor& parameter) { parameter = parameter.to(device); });
}

}  // namespace pmnet
