// The Transformer baseline: the Llama layout of Hugging Face. Full attention, so its streaming state holds the keys and
// values of everything read.
#pragma once
#include <vector>

#include "config/model_config.h"
#include "model/attention.h"
#include "model/language_model.h"
#include "model/ngram_embedding.h"

namespace pmnet {

struct TransformerLayer {
  RmsNorm input_layernorm, post_attention_layernorm;
  Attention self_attn;
  Mlp mlp;

  TransformerLayer(const TransformerConfig& config, const at::TensorOptions& options);
  void visit(const std::string& prefix, const ParameterVisitor& visitor);
};

class Transformer : public LanguageModel {
 public:
  Transformer(const TransformerConfig& config, at::ScalarType dtype);

  Tensor hidden(const Tensor& ids, ModelState* state, const ForwardOptions& options, Trace* trace) const override;
  ModelState initial_state(int64_t batch) const override;
  const Tensor& head_weight() const override { return lm_head.defined() ? lm_head : embed_tokens; }
  void visit(const ParameterVisitor& visitor) override;
  void initialize(uint64_t seed) override;
  ModelConfig model_config() const override { return config_; }
  const TransformerConfig& config() const { return config_; }

  Tensor embed_tokens;  // [V,d]
  NgramEmbedding embed_ngrams;
  std::vector<TransformerLayer> layers;
  RmsNorm norm;
  Tensor lm_head;  // [V,d], undefined when tied

 private:
  TransformerConfig config_;
};

}  // namespace pmnet
