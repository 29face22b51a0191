#include "model/language_model.h"
#include "model/mamba.h"
#include "model/pmnet.h"
#include "model/transformer.h"

namespace pmnet {

namespace {

std::unique_ptr<LanguageModel> make(const PmnetConfig& config, at::ScalarType dtype) {
  return std::make_unique<PMNet>(config, dtype);
}
std::unique_ptr<LanguageModel> make(const TransformerConfig& config, at::ScalarType dtype) {
  return std::make_unique<Transformer>(config, dtype);
}
std::unique_ptr<LanguageModel> make(const MambaConfig& config, at::ScalarType dtype) {
  return std::make_unique<Mamba>(config, dtype);
}

}  // namespace

std::unique_ptr<LanguageModel> make_model(const ModelConfig& config, at::ScalarType dtype) {
  return std::visit([&](const auto& known) { return make(known, dtype); }, config);
}

}  // namespace pmnet
