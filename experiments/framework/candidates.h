// Trained models for an experiment that trains none: given ones, or those of the comparison in the folder beside it.
#pragma once
#include <string>
#include <vector>

#include "experiments/framework/experiment.h"
#include "experiments/framework/registry.h"
#include "train/open_model.h"

namespace pmnet {

struct GivenModel {
  std::string label;
  ModelConfig config;
  std::string folder;    // empty: what the comparison trained as...
  std::string training;  // ...this
};

// `models` are LABEL=DIR; without any, the comparison's of the same recipe: PMNet, Transformer and Mamba. Reads the
// configurations of given folders.
std::vector<GivenModel> given_models(const std::vector<std::string>& models, Recipe recipe);

// UserError when the comparison's training is not there or not finished.
OpenedModel open_given(const GivenModel& model, const PartContext& context);

}  // namespace pmnet
