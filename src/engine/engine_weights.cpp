#include "engine/engine_weights.h"

#include <ATen/ATen.h>

#include <map>
#include <mutex>

#include "base/error.h"

namespace pmnet {

namespace {

using Parameters = std::map<std::string, Tensor>;

Parameters parameters_of(const LanguageModel& model) {
  Parameters parameters;
  for (const auto& [name, parameter] : model.named_parameters()) parameters.emplace(name, parameter.detach());
  return parameters;
}

}  // namespace

struct EngineWeights::Source {
  ModelConfig config;
  std::function<StoredWeight(const std::string& name)> read;
  std::function<std::string()> compute_hash;

  std::mutex mutex;  // of what follows
  std::map<std::string, Tensor> floats;
  std::map<std::string, PackedWeight> packed;
  std::string hash;
};

EngineWeights::EngineWeights(const ModelConfig& config, std::function<StoredWeight(const std::string& name)> read,
                             std::function<std::string()> hash)
    : source_(std::make_shared<Source>()) {
  source_->config = config;
  source_->read = std::move(read);
  source_->compute_hash = std::move(hash);
}

EngineWeights::EngineWeights(const LanguageModel& model)
    : EngineWeights(
          model.model_config(),
          [parameters = parameters_of(model)](const std::string& name) { return StoredWeight{parameters.at(name)}; },
          [parameters = parameters_of(model)] { return tensors_hash({parameters.begin(), parameters.end()}); }) {}

EngineWeights::EngineWeights(std::unique_ptr<LanguageModel> model, WeightType type)
    : EngineWeights(
          model->model_config(),
          [parameters = parameters_of(*model), type](const std::string& name) mutable {
            const auto found = parameters.extract(name);
            TORCH_CHECK(!found.empty(), "parameter ", name, " is not there or was read before");
            return quantize(found.mapped(), is_stored_smaller(name) ? type : WeightType::kF32);
          },
          []() -> std::string {
            fail("weights that were quantized in memory have no hash; save the model and load it again");
          }) {
  model.reset();  // the argument itself lives to the end of the caller's expression, which often makes the engine
}

EngineWeights::EngineWeights(const std::shared_ptr<const ModelFolder>& folder)
    : EngineWeights(
          folder->config(), [folder](const std::string& name) { return folder->read(name); },
          [folder] { return folder->hash(); }) {}

const ModelConfig& EngineWeights::config() const { return source_->config; }

Tensor EngineWeights::read_float(const std::string& name) const {
  const std::lock_guard lock(source_->mutex);
  Tensor& weight = source_->floats[name];
  if (!weight.defined()) weight = widened(source_->read(name)).contiguous();
  return weight;
}

PackedWeight EngineWeights::read_packed(const std::string& name) const {
  const std::lock_guard lock(source_->mutex);
  PackedWeight& weight = source_->packed[name];
  if (!weight.data.defined()) weight = pack_weight(source_->read(name));
  return weight;
}

std::string EngineWeights::hash() const {
  const std::lock_guard lock(source_->mutex);
  if (source_->hash.empty()) source_->hash = source_->compute_hash();
  return source_->hash;
}

}  // namespace pmnet
