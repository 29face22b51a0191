#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"

namespace pmnet {

struct OpenedModel {
  std::shared_ptr<LanguageModel> model;
  AnyConfig config;
  std::string hash;
  std::filesystem::path folder;  // where the weights lie
};

// What a command takes as DIR: a model folder, or the folder of a training run, whose newest whole checkpoint is meant.
// Warnings go to stderr as notes.
OpenedModel open_model(const std::string& folder);

}  // namespace pmnet
