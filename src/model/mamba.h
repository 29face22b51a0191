// The Mamba baseline: the Mamba-1 layout of Hugging Face.
#pragma once
#include <vector>

#include "config/model_config.h"
#include "model/language_model.h"
#include "model/layers.h"
#include "model/ngram_embedding.h"

namespace pmnet {

struct MambaMixer {
  Tensor A_log;        // [E,S], log(-A)
  Tensor D;            // [E]
  Tensor conv_weight;  // [E,1,K]
  Tensor conv_bias;    // [E], undefined: none
  Linear in_proj, x_proj, dt_proj, out_proj;

  MambaMixer(const MambaConfig& config, const at::TensorOptions& options);
  // x [B,T,d]. `past` (null: none) is replaced by what the next chunk needs. lengths as in ForwardOptions.
  Tensor forward(const Tensor& x, const RmsNorm& norm, SsmState* past, const std::optional<Tensor>& lengths) const;
  void visit(const std::string& prefix, const ParameterVisitor& visitor);
  void initialize(const MambaConfig& config, uint64_t seed, const std::string& prefix);
  SsmState initial_state(int64_t batch) const;
};

struct MambaLayer {
  RmsNorm norm;
  MambaMixer mixer;
};

class Mamba : public LanguageModel {
 public:
  Mamba(const MambaConfig& config, at::ScalarType dtype);

  Tensor hidden(const Tensor& ids, ModelState* state, const ForwardOptions& options, Trace* trace) const override;
  ModelState initial_state(int64_t batch) const override;
  const Tensor& head_weight() const override { return lm_head.defined() ? lm_head : embeddings; }
  void visit(const ParameterVisitor& visitor) override;
  void initialize(uint64_t seed) override;
  ModelConfig model_config() const override { return config_; }
  const MambaConfig& config() const { return config_; }

  Tensor embeddings;  // [V,d]
  NgramEmbedding embed_ngrams;
  std::vector<MambaLayer> layers;
  RmsNorm norm_f;
  Tensor lm_head;  // [V,d], undefined when tied

 private:
  MambaConfig config_;
};

}  // namespace pmnet
