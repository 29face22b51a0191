// The inference engine: text is read here, without gradients.
//
// How a byte goes through. A Session holds an Engine (weights, shared by any number of sessions and threads) and an
// EngineState (the past of its sequences). Engine::hidden(ids, state) checks the ids, lays the tokens of all sequences
// side by side as n rows, and runs one forward pass over them: a column of named steps, the same for one byte and for a
// chunk of thousands. Each step is a function of one equation: normalize, project, attend, write, read, mlp. Inside a
// step the number of rows decides how it is done: products of up to kMaxGemvRows rows read each packed weight once
// (GEMV), larger ones go to ATen (GEMM); a few queries attend key by key, many in blocks. The state takes part in two
// phases: steps append keys and change memories under a backup, and only a pass that got to its end is committed.
// Engine::logits() turns hidden states into logits, and a Sampler those into the next byte.
//
//   make_engine()     picks the engine: one per architecture for float32 on the CPU, else ModelEngine
//   CpuEngine         what those share: tokens, activations, commit or roll back (engine/cpu_engine.h)
//   PmnetEngine, TransformerEngine, MambaEngine
//   ModelEngine       the slow, obvious twin: runs LanguageModel itself, on any device and dtype
//
// An engine made of a model in float32 refers to the model's weights without a copy, except for a few derived tables:
// make a new one after the weights have changed.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "config/model_config.h"
#include "engine/engine_state.h"
#include "engine/engine_weights.h"
#include "model/language_model.h"

namespace pmnet {

struct PassOptions {
  std::optional<Tensor> lengths = std::nullopt;  // int64 [B]: the rest of each row is padding, which is not read
  Trace* trace = nullptr;                        // receives the inside of the pass
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual EngineState initial_state(int64_t batch) const = 0;

  // Reads ids int64 [B,T] (copied to the CPU or the device as needed) and gives the hidden states after the final norm,
  // [B,T,d], zero at padding. `state` (null: start of text, nothing is kept) is advanced, or left as it was if this
  // throws. Safe to call from several threads with different states.
  Tensor hidden(const Tensor& ids, EngineState* state, const PassOptions& options = {}) const;
  // hidden [...,d] -> [...,V].
  virtual Tensor logits(const Tensor& hidden) const = 0;
  // -log p of each target [B,T]; negative targets score zero.
  Tensor losses(const Tensor& ids, const Tensor& targets, EngineState* state, const PassOptions& options = {}) const;

  const ModelConfig& config() const { return config_; }
  const Tensor& head_weight() const { return head_weight_; }  // [V,d]
  int64_t vocab_size() const { return head_weight_.size(0); }
  int64_t bos_token_id() const { return pmnet::bos_token_id(config_); }
  int64_t eos_token_id() const { return pmnet::eos_token_id(config_); }
  // The config of a PMNet; null for the baselines.
  const PmnetConfig* pmnet_config() const { return std::get_if<PmnetConfig>(&config_); }
  // Identifies the weights: a memory file is only loaded into the model that wrote it.
  std::string model_hash() const { return weights_.hash(); }

 protected:
  explicit Engine(const EngineWeights& weights) : config_(weights.config()), weights_(weights) {}
  virtual Tensor run(const Tensor& ids, EngineState* state, const PassOptions& options) const = 0;

  ModelConfig config_;
  Tensor head_weight_;

 private:
  EngineWeights weights_;
};

std::shared_ptr<const Engine> make_engine(const EngineWeights& weights, const MemorySwitches& switches = {});
// Of a model that outlives the engine.
std::shared_ptr<const Engine> make_engine(const LanguageModel& model, const MemorySwitches& switches = {});
std::shared_ptr<const Engine> make_engine(std::shared_ptr<const LanguageModel> model,
                                          const MemorySwitches& switches = {});

// The twin that runs the model itself.
std::shared_ptr<const Engine> make_model_engine(std::shared_ptr<const LanguageModel> model,
                                                const MemorySwitches& switches = {});

}  // namespace pmnet
