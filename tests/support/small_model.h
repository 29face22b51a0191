// A PMNet small enough for any test, with weights large enough that every part matters and tokens spread over the tree,
// small enough that rounding does not grow much on the way through.
#pragma once
#include <ATen/ATen.h>

#include <memory>

#include "model/pmnet.h"
#include "support/differences.h"

namespace pmnet {

// Five layers of period two: three levels, the last of them short. Grouped queries, sizes no vector width divides.
inline PmnetConfig small_config() {
  PmnetConfig c;
  c.vocab_size = 40;
  c.hidden_size = 20;
  c.intermediate_size = 28;
  c.num_layers = 5;
  c.num_heads = 2;
  c.num_kv_heads = 1;
  c.head_dim = 6;
  c.memory_size = 11;
  c.num_memory = 3;
  c.num_read_heads = 2;
  c.write_period = 2;
  c.sliding_window = 9;
  c.bos_token_id = 38;
  c.eos_token_id = 39;
  c.layer_types.assign(c.num_layers, LayerType::kSliding);
  return c;
}

inline PmnetConfig with_full_attention(PmnetConfig c) {
  c.layer_types[1] = c.layer_types[4] = LayerType::kFull;
  return c;
}

inline PmnetConfig as_chain(PmnetConfig c) {
  c.memory_tree = false;
  return c;
}

inline PmnetConfig with_ngrams(PmnetConfig c) {
  c.max_ngram = 4;
  c.ngram_rows = 16;
  return c;
}

inline std::shared_ptr<PMNet> small_model(const PmnetConfig& config, uint64_t seed = 1,
                                          at::ScalarType dtype = at::kFloat) {
  auto model = std::make_shared<PMNet>(config, dtype);
  model->visit([&](const std::string& name, Tensor& p) {
    const double fan_in = p.dim() == 2 ? static_cast<double>(p.size(1)) : 1.0;
    if (name.find("norm") != std::string::npos) {
      fill_uniform(p, 0.5, 1.5, seed, name);
    } else {
      fill_normal(p, name.find("embed") != std::string::npos ? 1.0 : 0.5 / std::sqrt(fan_in), seed, name);
      if (p.dim() == 1) p.mul_(0.1);
    }
  });
  return model;
}

inline Tensor random_ids(const PmnetConfig& config, int64_t batch, int64_t time, uint64_t seed = 2) {
  return at::randint(0, config.vocab_size, {batch, time}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kLong);
}

}  // namespace pmnet
