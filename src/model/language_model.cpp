#include "model/language_model.h"

#include <ATen/ATen.h>

#include "base/hash.h"

namespace pmnet {

Tensor LanguageModel::logits(const Tensor& ids, ModelState* state, const ForwardOptions& options, Trace* trace) const {
  return at::linear(hidden(ids, state, options, trace), head_weight());
}

Tensor LanguageModel::losses(const Tensor& ids, const Tensor& targets, ModelState* state,
                             const ForwardOptions& options) const {
  const Tensor h = hidden(ids, state, options, nullptr);
  return ops::cross_entropy(h.flatten(0, 1), head_weight(), targets.flatten()).view_as(targets);
}

std::vector<std::pair<std::string, Tensor>> LanguageModel::named_parameters() const {
  std::vector<std::pair<std::string, Tensor>> list;
  // Only reads: a copy of a Tensor is a reference to it.
  const_cast<LanguageModel*>(this)->visit(
      [&](const std::string& name, Tensor& parameter) { list.emplace_back(name, parameter); });
  return list;
}

void LanguageModel::require_gradients(bool on) {
  visit([&](const std::string&, Tensor& parameter) { parameter.requires_grad_(on); });
}

Tensor next_byte_targets(const Tensor& ids) {
  const int64_t last = std::min<int64_t>(ids.size(1), 1);  // none in an empty text
  return at::cat({ids.slice(1, 1), at::full({ids.size(0), last}, -1, ids.options())}, 1);
}

Tensor dropout_row_keys(const DropoutKey& key, int64_t batch, int64_t layer) {
  Tensor keys = at::empty({batch}, at::kLong);
  auto out = keys.accessor<int64_t, 1>();
  for (int64_t b = 0; b < batch; ++b) {
    const uint64_t sample = key.samples.empty() ? b : key.samples.at(b);
    uint64_t x = splitmix64(key.seed);
    for (const uint64_t part : {key.step, sample, static_cast<uint64_t>(layer)})
      x = mix64(x ^ (part + 0x9E3779B97F4A7C15 * (part + 1)));
    out[b] = static_cast<int64_t>(x);
  }
  return keys;
}

}  // namespace pmnet
