#include "engine/engine.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "engine/mamba_engine.h"
#include "engine/model_engine.h"
#include "engine/pmnet_engine.h"
#include "engine/transformer_engine.h"

namespace pmnet {

namespace {

// Experiments that are rare enough to run the model itself: sums without wrapping, and slots without embeddings, which
// must tie exactly (GEMV does not promise the same bits for the same operand in another place).
bool needs_model(const MemorySwitches& switches) {
  return switches.unconstrained || switches.zero_embeddings != ZeroEmbeddings::kNone ||
         ops::current_implementation() == ops::Implementation::kReference;
}

// A model with the same weights in float32.
std::shared_ptr<const LanguageModel> widened_model(const EngineWeights& weights) {
  std::shared_ptr<LanguageModel> model = make_model(weights.config());
  model->visit([&](const std::string& name, Tensor& parameter) { parameter.copy_(weights.read_float(name)); });
  return model;
}

}  // namespace

Tensor Engine::hidden(const Tensor& ids, EngineState* state, const PassOptions& options) const {
  const at::NoGradGuard no_grad;
  TORCH_CHECK(ids.dim() == 2 && ids.scalar_type() == at::kLong, "Engine: ids have shape ", ids.sizes(), " and type ",
              ids.scalar_type(), ", expected int64 [batch, time]");
  TORCH_CHECK(state == nullptr || ids.size(0) == static_cast<int64_t>(state->size()), "Engine: ids have shape ",
              ids.sizes(), ", expected [", state->size(), ", any length]");
  const Tensor here = ids.cpu().contiguous();
  const auto* first = here.const_data_ptr<int64_t>();
  if (std::any_of(first, first + here.numel(), [&](int64_t id) { return id < 0 || id >= vocab_size(); }))
    fail("an id is outside the model's vocabulary of {}", vocab_size());
  if (!options.lengths) return run(here, state, options);
  const Tensor lengths = options.lengths->cpu().contiguous();
  TORCH_CHECK(lengths.sizes() == at::IntArrayRef({ids.size(0)}) && (lengths >= 0).all().item<bool>() &&
                  (lengths <= ids.size(1)).all().item<bool>(),
              "Engine: lengths must be one number from 0 to ", ids.size(1), " per row");
  return run(here, state, {.lengths = lengths, .trace = options.trace});
}

Tensor Engine::losses(const Tensor& ids, const Tensor& targets, EngineState* state, const PassOptions& options) const {
  const Tensor h = hidden(ids, state, options);
  const at::NoGradGuard no_grad;
  return ops::cross_entropy(h.flatten(0, 1), head_weight_, targets.flatten().to(head_weight_.device()))
      .view_as(targets);
}

std::shared_ptr<const Engine> make_engine(const EngineWeights& weights, const MemorySwitches& switches) {
  const at::NoGradGuard no_grad;
  if (needs_model(switches)) return std::make_shared<ModelEngine>(weights, widened_model(weights), switches);
  if (std::holds_alternative<MambaConfig>(weights.config())) return std::make_shared<MambaEngine>(weights);
  if (std::holds_alternative<TransformerConfig>(weights.config())) return std::make_shared<TransformerEngine>(weights);
  return std::make_shared<PmnetEngine>(weights, switches);
}

std::shared_ptr<const Engine> make_engine(std::shared_ptr<const LanguageModel> model, const MemorySwitches& switches) {
  const Tensor& head = model->head_weight();
  const bool fast = head.is_cpu() && head.scalar_type() == at::kFloat && !needs_model(switches);
  return fast ? make_engine(EngineWeights(*model), switches) : make_model_engine(std::move(model), switches);
}

std::shared_ptr<const Engine> make_engine(const LanguageModel& model, const MemorySwitches& switches) {
  return make_engine(std::shared_ptr<const LanguageModel>(std::shared_ptr<void>(), &model), switches);
}

std::shared_ptr<const Engine> make_model_engine(std::shared_ptr<const LanguageModel> model,
                                                const MemorySwitches& switches) {
  const EngineWeights weights(*model);
  return std::make_shared<ModelEngine>(weights, std::move(model), switches);
}

}  // namespace pmnet
