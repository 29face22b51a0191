// What the engines for float32 activations on the CPU share. Letters: B sequences, n tokens of all of them, d hidden
// width, A heads, Dh head width, f inner width.
#pragma once
#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/activations.h"
#include "engine/engine.h"
#include "engine/parallel_steal.h"

namespace pmnet {

struct NormWeights {
  Tensor weight;
  float eps = 0;
};

struct AttentionWeights {
  NormWeights norm;
  Projection q, k, v, o;
  NormWeights q_norm, k_norm;  // per head; undefined weights: none
  int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int64_t window = 0;  // 0: full attention
};

struct MlpWeights {
  NormWeights norm;
  Projection gate, up, down;
};

// Everything the layers work on: a group of sequences.
struct Pass {
  const Workers& workers;
  Activations& a;
  std::span<SequenceState> state;
  bool keep_state;  // false: the windows serve this pass alone
  Trace* trace;
  int64_t n, longest;  // tokens of all sequences, and of the longest

  int64_t batch() const { return static_cast<int64_t>(state.size()); }
  int64_t tokens(int64_t b) const { return a.first[b + 1] - a.first[b]; }

  // body(begin, end) for ranges of tokens; cost: floats per token.
  template <typename Body>
  void for_tokens(int64_t cost, const Body& body) const {
    parallel_rows(workers, n, cost, body);
  }

  // Rows [n,...] as [B,T,...] for a trace, `padding` where a sequence has no token.
  template <typename T>
  Tensor traced(const T* rows, std::vector<int64_t> shape, T padding) const {
    shape.insert(shape.begin(), {batch(), longest});
    Tensor out = at::full(shape, padding, c10::CppTypeToScalarType<T>::value);
    const int64_t width = out.numel() / std::max<int64_t>(batch() * longest, 1);
    for (int64_t b = 0; b < batch(); ++b)
      std::copy_n(rows + a.first[b] * width, tokens(b) * width, out.mutable_data_ptr<T>() + b * longest * width);
    return out;
  }
};

class CpuEngine : public Engine {
 public:
  Tensor logits(const Tensor& hidden) const override;

 protected:
  // Of the tensors around the layers.
  struct Names {
    std::string embedding, ngrams, norm;
  };
  CpuEngine(const EngineWeights& weights, const Names& names, double eps, bool tied);
  SequenceState fresh_state() const;  // what every architecture keeps, at the start of a text

  // The layers, on pass.a.x.
  virtual void run_layers(Pass& pass) const = 0;
  // Vectors per token in the largest of the products that a pass of few tokens leaves to GEMV.
  virtual int64_t vectors_per_token() const { return 1; }
  int64_t width() const { return embedding_.size(1); }  // d

 private:
  class Lease;  // of activations
  Tensor run(const Tensor& ids, EngineState* state, const PassOptions& options) const override;
  void embed(Pass& pass, const Tensor& ids) const;
  // To x [count,d], where the codes of the tokens before ids are `recent`.
  void add_ngrams(const int64_t* ids, int64_t count, const std::vector<int64_t>& recent, float* x) const;

  Tensor embedding_;            // [V,d]
  std::vector<Tensor> ngrams_;  // tables of n = 2, 3, ..., [rows,d]
  Projection head_;
  NormWeights norm_;
  mutable std::mutex idle_mutex_;
  mutable std::vector<std::unique_ptr<Activations>> idle_;  // one per thread that has run a pass at the same time
};

// Reading weights by name.
NormWeights read_norm(const EngineWeights& weights, const std::string& prefix, double eps);
Projection read_projection(const EngineWeights& weights, const std::string& prefix, bool with_bias);
AttentionWeights read_attention(const EngineWeights& weights, const std::string& layer, bool with_bias, bool norm_heads,
                                double eps);
MlpWeights read_mlp(const EngineWeights& weights, const std::string& layer, bool with_bias, double eps);

// The steps that several architectures have.
void normalize(Pass& pass, const NormWeights& norm);                       // normed = norm(x)
void add_projection(Pass& pass, const Projection& w, const float* input);  // x += W input + b
void rotary_tables(Pass& pass, int64_t head_dim, double theta);            // cos, sin of every token's position
void attend(Pass& pass, const AttentionWeights& w, int64_t layer);         // x += W_o attention(norm(x))
void mlp(Pass& pass, const MlpWeights& w);  // x += W_d (silu(W_g y) * W_u y), y = norm(x)

}  // namespace pmnet
