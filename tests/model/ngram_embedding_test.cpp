#include "model/ngram_embedding.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "config/presets.h"
#include "support/differences.h"
#include "support/small_model.h"

namespace pmnet {
namespace {

NgramEmbedding tables_for(int64_t max_ngram, int64_t rows) {
  NgramEmbedding ngrams(max_ngram, rows, /*width=*/5, at::kFloat);
  ngrams.visit("t", [](const std::string& name, Tensor& table) { fill_normal(table, 1, 1, name); });
  return ngrams;
}

// The definition, byte by byte: hash the last n codes, add that row of the table of n.
Tensor by_hand(const NgramEmbedding& ngrams, const std::vector<int64_t>& ids) {
  Tensor out = at::zeros({std::ssize(ids), ngrams.tables.at(0).size(1)});
  for (int64_t t = 0; t < std::ssize(ids); ++t)
    for (int64_t n = 2; n < 2 + std::ssize(ngrams.tables); ++n) {
      uint64_t hash = 0;
      for (int64_t i = t; i > t - n; --i) hash = continue_ngram(hash, i < 0 ? 0 : static_cast<uint64_t>(ids[i] + 1));
      const Tensor& table = ngrams.tables[n - 2];
      out[t] += table[ngram_row(hash, table.size(0))];
    }
  return out;
}

TEST(NgramEmbedding, AddsTheRowOfEveryNgramThatEndsHere) {
  const NgramEmbedding ngrams = tables_for(4, 64);
  const std::vector<int64_t> ids = {0, 255, 7, 7, 7, 0, 0, 383, 1, 2};
  const Tensor got = ngrams.forward(at::tensor(ids, at::kLong).unsqueeze(0), nullptr, std::nullopt);
  EXPECT_LE(largest_difference(got[0], by_hand(ngrams, ids)), 1e-6);
}

TEST(NgramEmbedding, ContinuesWhereTheStateEnds) {
  const NgramEmbedding ngrams = tables_for(5, 32);
  const Tensor ids = at::randint(0, 256, {2, 19}, at::make_generator<at::CPUGeneratorImpl>(3), at::kLong);
  const Tensor whole = ngrams.forward(ids, nullptr, std::nullopt);
  for (const int64_t chunk : {1, 2, 3, 7}) {
    ModelState state;
    state.recent_codes = ngrams.no_codes(2);
    std::vector<Tensor> pieces;
    for (int64_t begin = 0; begin < 19; begin += chunk)
      pieces.push_back(ngrams.forward(ids.narrow(1, begin, std::min(chunk, 19 - begin)), &state, std::nullopt));
    EXPECT_TRUE(at::equal(at::cat(pieces, 1), whole)) << chunk;
    EXPECT_TRUE(at::equal(state.recent_codes, ids.narrow(1, 15, 4) + 1)) << chunk;
  }
}

TEST(NgramEmbedding, PaddingIsNotKept) {
  const NgramEmbedding ngrams = tables_for(3, 32);
  const Tensor ids = at::tensor({5, 6, 7, 8, 9, 10}, at::kLong).view({2, 3});
  ModelState state;
  state.recent_codes = ngrams.no_codes(2);
  ngrams.forward(ids, &state, at::tensor({int64_t{1}, int64_t{3}}, at::kLong));
  EXPECT_TRUE(at::equal(state.recent_codes, at::tensor({0, 6, 10, 11}, at::kLong).view({2, 2})));
}

// Bytes of text spread over the rows about as evenly as random numbers would.
TEST(NgramEmbedding, HashesSpread) {
  for (const int64_t n : {2, 3, 4}) {
    constexpr int64_t kRows = 256;
    std::vector<int64_t> count(kRows, 0);
    constexpr int64_t kLetters = 26;
    int64_t total = 0;
    for (int64_t first = 0; first < kLetters; ++first)
      for (int64_t second = 0; second < kLetters; ++second) {
        uint64_t hash = 0;
        for (int64_t i = 0; i < n; ++i) hash = continue_ngram(hash, 'a' + (i % 2 == 0 ? first : second));
        ++count[ngram_row(hash, kRows)];
        ++total;
      }
    const double mean = static_cast<double>(total) / kRows;
    double chi_square = 0;  // of 255 degrees of freedom: 255 +- 23
    for (const int64_t c : count) chi_square += (c - mean) * (c - mean) / mean;
    EXPECT_LT(chi_square, 255 + 6 * 23) << n;
  }
}

TEST(NgramEmbedding, BeginsSilentInEveryArchitecture) {
  const PmnetConfig plain = preset("tiny");
  PmnetConfig with = plain;
  with.max_ngram = 3;
  with.ngram_rows = 64;
  const Tensor ids = random_ids(plain, 1, 20);
  const auto logits = [&](ModelConfig config, int64_t max_ngram) {
    std::visit([&](auto& c) { c.max_ngram = max_ngram; }, config);
    const auto model = make_model(config);
    model->initialize(4);
    return model->logits(ids);
  };
  for (const ModelConfig& config :
       {ModelConfig(with), ModelConfig(transformer_like(with)), ModelConfig(mamba_like(with))})
    EXPECT_TRUE(at::equal(logits(config, 3), logits(config, 1))) << config.index();
}

}  // namespace
}  // namespace pmnet
