#include "engine/model_engine.h"

#include <ATen/ATen.h>

namespace pmnet {

ModelEngine::ModelEngine(const EngineWeights& weights, std::shared_ptr<const LanguageModel> model,
                         const MemorySwitches& switches)
    : Engine(weights), model_(std::move(model)), switches_(switches) {
  head_weight_ = model_->head_weight().detach();
}

EngineState ModelEngine::initial_state(int64_t batch) const {
  const ModelState fresh = model_->initial_state(1);
  SequenceState sequence;
  for (size_t l = 0; l < fresh.attention.size(); ++l) {
    const Tensor& keys = fresh.attention[l].keys;
    const PmnetConfig* c = pmnet_config();
    const int64_t window = c != nullptr && c->slides(static_cast<int64_t>(l)) ? c->sliding_window : 0;
    sequence.attention.emplace_back(keys.size(2), keys.size(3), window, keys.options());
  }
  for (const ops::Phases& level : fresh.memory) {
    const bool turns = level.turns && !switches_.unconstrained;  // sums without wrapping are angles
    sequence.memory.push_back(
        turns ? *level.turns : at::zeros_like(level.turns ? *level.turns : *level.angle, head_weight_.options()));
  }
  sequence.ssm = fresh.ssm;
  if (fresh.recent_codes.defined()) sequence.recent.assign(fresh.recent_codes.size(1), 0);
  return EngineState(batch, sequence);
}

Tensor ModelEngine::run(const Tensor& ids, EngineState* state, const PassOptions& options) const {
  const at::Device device = head_weight_.device();
  ForwardOptions forward;
  forward.memory = switches_;
  if (options.lengths) forward.lengths = options.lengths->to(device);
  ModelState after;
  if (state != nullptr) {
    after = to_model_state(*state);
    after.positions = after.positions.to(device);
    if (after.recent_codes.defined()) after.recent_codes = after.recent_codes.to(device);
  }
  Tensor hidden = model_->hidden(ids.to(device), state ? &after : nullptr, forward, options.trace);
  if (forward.lengths) {
    const Tensor padding = at::arange(ids.size(1), forward.lengths->options()) >= forward.lengths->unsqueeze(1);
    hidden = hidden.masked_fill(padding.unsqueeze(-1), 0);
  }
  if (state != nullptr) *state = from_model_state(after, initial_state(1)[0]);
  return hidden;
}

Tensor ModelEngine::logits(const Tensor& hidden) const { return at::linear(hidden, head_weight_); }

}  // namespace pmnet
