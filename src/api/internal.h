// What the files of this folder share. The library's own Session and Trainer get other names here, before the public
// headers are included: afterwards the unqualified names mean the public classes of the inline namespace v0.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/generator.h"
#include "engine/session.h"
#include "model/model_folder.h"
#include "train/open_model.h"
#include "train/trainer.h"

namespace pmnet::internal {

using EngineSession = pmnet::Session;
using BatchTrainer = pmnet::Trainer;

}  // namespace pmnet::internal

#include "pmnet/model.h"
#include "pmnet/session.h"
#include "pmnet/trainer.h"

namespace pmnet {

struct Model::Impl {
  std::shared_ptr<LanguageModel> model;
  ModelConfig config;
  std::vector<std::string> warnings;
  bool quantized = false;      // bf16 or int8 weights: for inference only
  std::string quantized_hash;  // taken before the weights were packed
};

}  // namespace pmnet
