#include "model/ngram_embedding.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace pmnet {

NgramEmbedding::NgramEmbedding(int64_t max_ngram, int64_t rows, int64_t width, const at::TensorOptions& options) {
  for (int64_t n = 2; n <= max_ngram; ++n) tables.push_back(at::empty({rows, width}, options));
}

Tensor NgramEmbedding::forward(const Tensor& ids, ModelState* state, const std::optional<Tensor>& lengths) const {
  const int64_t T = ids.size(1), kept = static_cast<int64_t>(tables.size());
  const Tensor codes = at::cat({state ? state->recent_codes : no_codes(ids.size(0)), ids + 1}, 1);
  if (state != nullptr) {
    const Tensor end = lengths.value_or(at::full({ids.size(0)}, T, ids.options()));
    state->recent_codes = codes.gather(1, end.unsqueeze(1) + at::arange(kept, ids.options()));  // [B,kept]
  }
  constexpr auto kMultiplier = static_cast<int64_t>(kGoldenRatio64);
  Tensor hash = codes.narrow(1, kept, T), sum;
  for (int64_t i = 0; i < kept; ++i) {
    const Tensor& table = tables[i];
    hash = hash * kMultiplier + codes.narrow(1, kept - 1 - i, T);
    const Tensor high = hash.bitwise_right_shift(kNgramFold).bitwise_and(0xFFFFFFFF);  // int64 shifts keep the sign
    const Tensor mixed = hash.bitwise_xor(high) * kMultiplier;
    const Tensor rows = mixed.bitwise_right_shift(kNgramShift).bitwise_and(table.size(0) - 1);
    const Tensor embedded = at::embedding(table, rows);
    sum = sum.defined() ? sum + embedded : embedded;
  }
  return sum;
}

Tensor NgramEmbedding::no_codes(int64_t batch) const {
  if (tables.empty()) return {};
  return at::zeros({batch, static_cast<int64_t>(tables.size())}, tables[0].options().dtype(at::kLong));
}

void NgramEmbedding::visit(const std::string& prefix, const ParameterVisitor& visitor) {
  for (size_t i = 0; i < tables.size(); ++i) visitor(fmt::format("{}.{}.weight", prefix, i + 2), tables[i]);
}

Tensor embed(const Tensor& weight, const NgramEmbedding& ngrams, const Tensor& ids, int64_t pad, ModelState* state,
             const std::optional<Tensor>& lengths) {
  const Tensor x = embed(weight, ids, pad);
  return ngrams.tables.empty() ? x : x + ngrams.forward(ids, state, lengths);
}

}  // namespace pmnet
