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
  std::shared_ptr<LanguageModel> model;  // null for bf16 and int8 weights, which are for inference only
  std::shared_ptr<const Engine> quantized;
  ModelConfig config;
  std::vector<std::string> warnings;

  // A new one for a model that may have been trained since the last.
  std::shared_ptr<const Engine> engine() const { return quantized ? quantized : make_engine(model); }
};

}  // namespace pmnet
