#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "engine/engine.h"

namespace pmnet {

struct OpenedModel {
  EngineWeights weights;
  std::shared_ptr<const Engine> engine;  // of those weights; make_engine() makes more, with other switches
  ModelConfig config;
  std::filesystem::path folder;  // where the weights lie
};

// What a person names as a model: its folder, or that of a training run, whose newest whole checkpoint is meant.
// Warnings go to stderr as notes.
OpenedModel open_model(const std::string& folder);
std::filesystem::path weights_folder(const std::string& folder);

// Whether it is a PMNet whose memory can be switched off.
bool has_memory(const ModelConfig& config);

// "LABEL=DIR", or a folder, whose name is then the label.
struct NamedModel {
  std::string label, folder;
};
NamedModel parse_named_model(const std::string& text);

}  // namespace pmnet
