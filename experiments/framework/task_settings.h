// What the experiments on synthetic tasks have in common: the shape of the models and how they are trained.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "config/train_config.h"
#include "experiments/framework/settings.h"
#include "model/language_model.h"

namespace pmnet {

// The models that can be trained side by side on the same batches.
enum class Contender {
  kPmnet,
  kWindow,  // PMNet without memory modules: only its sliding window is left
  kTransformer,
  kMamba,
};
const std::vector<std::string>& contender_names();  // pmnet, window, transformer, mamba
const std::string& contender_name(Contender contender);
Contender contender_of(const std::string& name);   // UserError naming the closest
const char* contender_title(Contender contender);  // for people: "PMNet", "Window only", ...

// Adds the sentence unless things are fine.
void require(std::vector<std::string>& problems, bool fine, const std::string& sentence);

struct TaskSettings : Settings {
  int64_t seeds = 3;
  // PMNet's shape, in the letters of docs/equations.md; the baselines match its parameters
  int64_t hidden = 64, intermediate = 128, layers = 4, heads = 2, head_dim = 32;
  int64_t memory = 64, slots = 4, read_heads = 2, write_period = 2, window = 16;
  double init = 0.02;  // standard deviation of the initial weights
  // training
  int64_t batch = 16, steps = 1000, warmup = 50, eval_every = 50;
  int64_t chunk = 0;  // bytes per exact pass, for contexts whose activations do not fit; 0: whole samples
  double learning_rate = 1e-3, min_lr_ratio = 0.05, clip = 1, weight_decay = 0.01;

  void visit(const Visitor& visitor) override;
  std::vector<std::string> problems() override;

  PmnetConfig pmnet_config() const;
  ModelConfig model_config(Contender contender) const;
  TrainConfig train_config(int64_t seed) const;
  // Bytes back that a chain of windows can reach.
  int64_t reach() const { return layers * (window - 1); }
};

}  // namespace pmnet
