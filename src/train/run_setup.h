// Settings -> the things a run is made of.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "config/costs.h"
#include "config/train_config.h"
#include "data/corpus.h"
#include "data/windows.h"
#include "model/model_folder.h"
#include "train/process_group.h"

namespace pmnet {

// The shape of the model that the settings ask for.
ModelConfig model_config_of(const TrainConfig& config);
// With weights: random, or those of model.init; on the device.
LoadedModel make_run_model(const TrainConfig& config, const ProcessGroup& group);
void move_to_device(LanguageModel& model, const TrainConfig& config, const ProcessGroup& group);

Framing framing_of(const LanguageModel& model);

struct RunData {
  std::shared_ptr<const DocumentSet> train;
  std::shared_ptr<const DocumentSet> held_out;  // null when nothing is
  std::vector<PackResult> packed;
  std::string fingerprint() const;
};
// `poll` is called now and then and may throw.
RunData open_run_data(const TrainConfig& config, const std::function<void()>& poll);

// What training takes on this machine, all its ranks together.
std::vector<CostPart> training_memory(const TrainConfig& config, const ModelConfig& model, const Launch& launch);
// UserError when that is more than there is.
void check_memory(const TrainConfig& config, const ModelConfig& model, const Launch& launch);

// The cores divided among the ranks of a machine, unless the settings say otherwise.
void choose_threads(const TrainConfig& config, const Launch& launch);

// Operations per second of this rank in 2,048 x 2,048 matrix products.
double measure_gemm_rate();

}  // namespace pmnet
