// The Phasor Memory Network: a decoder whose attention slides over the last w bytes and whose tree of phasor memories
// holds everything older.
#pragma once
#include <optional>
#include <vector>

#include "config/model_config.h"
#include "model/attention.h"
#include "model/language_model.h"
#include "model/ngram_embedding.h"
#include "model/phasor_memory.h"

namespace pmnet {

struct DecoderLayer {
  RmsNorm input_layernorm, post_attention_layernorm;
  Attention self_attn;
  Mlp mlp;
  std::optional<MemoryWrite> memory_write_module;  // where layer % P == 0
  std::optional<MemoryRead> memory_read_module;    // everywhere, unless the model has no memory modules

  DecoderLayer(const PmnetConfig& config, int64_t layer, const at::TensorOptions& options);
  void visit(const std::string& prefix, const ParameterVisitor& visitor);
};

class PMNet : public LanguageModel {
 public:
  PMNet(const PmnetConfig& config, at::ScalarType dtype);

  Tensor hidden(const Tensor& ids, ModelState* state, const ForwardOptions& options, Trace* trace) const override;
  ModelState initial_state(int64_t batch) const override;
  const Tensor& head_weight() const override { return lm_head.defined() ? lm_head : embed_tokens; }
  void visit(const ParameterVisitor& visitor) override;
  void initialize(uint64_t seed) override;
  ModelConfig model_config() const override { return config_; }
  const PmnetConfig& config() const { return config_; }

  Tensor embed_tokens;                    // [V,d]
  NgramEmbedding embed_ngrams;            // none as published
  std::vector<Tensor> memory_embeddings;  // E, per level [N^h,N,M]
  std::vector<DecoderLayer> layers;
  RmsNorm norm;
  Tensor lm_head;  // [V,d], undefined when tied

 private:
  struct Pass;
  // Goes down one level: routes, writes, and leaves the features that this level's layers read.
  void write(Pass& pass, const Tensor& x, int64_t layer) const;

  PmnetConfig config_;
};

}  // namespace pmnet
