#pragma once
#include "model/language_model.h"

namespace pmnet {

// UserError when LibTorch finds no such device.
void require_device(const at::Device& device);

void move_model(LanguageModel& model, const at::Device& device);

}  // namespace pmnet
