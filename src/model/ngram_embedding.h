// Hash n-gram embeddings (ours, not the paper's): beside the row of its byte, a token gets one row for its last 2, 3,
// ... bytes each, chosen by a hash of them. They cost a look-up, and the state keeps the few bytes that the next token
// needs.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "model/layers.h"
#include "model/state.h"

namespace pmnet {

// The hash of n codes continues that of the n-1 later ones. A code is 1 + id; 0 stands before the text. Wraps around.
inline uint64_t continue_ngram(uint64_t later, uint64_t code) { return later * kGoldenRatio64 + code; }
inline constexpr int kNgramFold = 32;   // sums of products alone leave patterns such as "aba" unevenly spread
inline constexpr int kNgramShift = 40;  // the row is taken from bits that all codes reach; rows <= 2^22
inline int64_t ngram_row(uint64_t hash, int64_t rows) {
  return static_cast<int64_t>(((hash ^ (hash >> kNgramFold)) * kGoldenRatio64) >> kNgramShift) & (rows - 1);
}

struct NgramEmbedding {
  std::vector<Tensor> tables;  // of n = 2, 3, ..., [rows,d]; empty: a model of bytes alone

  NgramEmbedding() = default;
  NgramEmbedding(int64_t max_ngram, int64_t rows, int64_t width, const at::TensorOptions& options);

  // What to add to the embedding of ids, [B,T,d]. `state` (null: start of text) has the bytes before them and receives
  // the latest; rows with `lengths` end before T.
  Tensor forward(const Tensor& ids, ModelState* state, const std::optional<Tensor>& lengths) const;
  Tensor no_codes(int64_t batch) const;  // the state at the start of a text; undefined without tables
  void visit(const std::string& prefix, const ParameterVisitor& visitor);
};

// The embedding of ids, of their bytes and n-grams.
Tensor embed(const Tensor& weight, const NgramEmbedding& ngrams, const Tensor& ids, int64_t pad, ModelState* state,
             const std::optional<Tensor>& lengths);

}  // namespace pmnet
