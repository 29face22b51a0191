#include "engine/cpu_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/ngram_embedding.h"

namespace pmnet {

NormWeights read_norm(const EngineWeights& weights, const std::string& prefix, double eps) {
  return {weights.read_float(prefix + ".weight"), static_cast<float>(eps)};
}

Projection read_projection(const EngineWeights& weights, const std::string& prefix, bool with_bias) {
  return {weights.read_packed(prefix + ".weight"), with_bias ? weights.read_float(prefix + ".bias") : Tensor()};
}

AttentionWeights read_attention(const EngineWeights& weights, const std::string& layer, bool with_bias, bool norm_heads,
                                double eps) {
  AttentionWeights w;
  const std::string attention = layer + ".self_attn";
  w.norm = read_norm(weights, layer + ".input_layernorm", eps);
  w.q = read_projection(weights, attention + ".q_proj", with_bias);
  w.k = read_projection(weights, attention + ".k_proj", with_bias);
  w.v = read_projection(weights, attention + ".v_proj", with_bias);
  w.o = read_projection(weights, attention + ".o_proj", with_bias);
  w.q_norm.eps = w.k_norm.eps = static_cast<float>(eps);
  if (norm_heads) {
    w.q_norm = read_norm(weights, attention + ".q_norm", eps);
    w.k_norm = read_norm(weights, attention + ".k_norm", eps);
  }
  return w;
}

MlpWeights read_mlp(const EngineWeights& weights, const std::string& layer, bool with_bias, double eps) {
  return {.norm = read_norm(weights, layer + ".post_attention_layernorm", eps),
          .gate = read_projection(weights, layer + ".mlp.gate_proj", with_bias),
          .up = read_projection(weights, layer + ".mlp.up_proj", with_bias),
          .down = read_projection(weights, layer + ".mlp.down_proj", with_bias)};
}

CpuEngine::CpuEngine(const EngineWeights& weights, const Names& names, double eps, bool tied)
    : Engine(weights), embedding_(weights.read_float(names.embedding)), norm_(read_norm(weights, names.norm, eps)) {
  for (int64_t n = 2; n <= max_ngram(config()); ++n)
    ngrams_.push_back(weights.read_float(fmt::format("{}.{}.weight", names.ngrams, n)));
  head_weight_ = tied ? embedding_ : weights.read_float("lm_head.weight");
  head_.weight = pack_weight({head_weight_});
}

// Activations for the time of one pass: those of an earlier one if some are idle.
class CpuEngine::Lease {
 public:
  explicit Lease(const CpuEngine& engine) : engine_(engine) {
    const std::lock_guard lock(engine_.idle_mutex_);
    if (engine_.idle_.empty()) {
      leased_ = std::make_unique<Activations>();
    } else {
      leased_ = std::move(engine_.idle_.back());
      engine_.idle_.pop_back();
    }
  }
  ~Lease() {
    const std::lock_guard lock(engine_.idle_mutex_);
    engine_.idle_.push_back(std::move(leased_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Activations& operator*() const { return *leased_; }

 private:
  const CpuEngine& engine_;
  std::unique_ptr<Activations> leased_;
};

void CpuEngine::embed(Pass& pass, const Tensor& ids) const {
  const int64_t d = width();
  float* x = pass.a.x.resize(pass.n * d);
  for (int64_t b = 0; b < pass.batch(); ++b) {
    const int64_t* row = ids.const_data_ptr<int64_t>() + b * ids.size(1);
    for (int64_t t = 0; t < pass.tokens(b); ++t)
      std::copy_n(embedding_.const_data_ptr<float>() + row[t] * d, d, x + (pass.a.first[b] + t) * d);
    add_ngrams(row, pass.tokens(b), pass.state[b].recent, x + pass.a.first[b] * d);
  }
}

void CpuEngine::add_ngrams(const int64_t* ids, int64_t count, const std::vector<int64_t>& recent, float* x) const {
  const int64_t d = width(), kept = std::ssize(recent);
  for (int64_t t = 0; t < count; ++t, x += d) {
    auto hash = static_cast<uint64_t>(ids[t] + 1);
    for (int64_t i = 0; i < kept; ++i) {
      const int64_t earlier = t - 1 - i;
      hash = continue_ngram(hash, earlier < 0 ? recent[kept + earlier] : ids[earlier] + 1);
      const float* row = ngrams_[i].const_data_ptr<float>() + ngram_row(hash, ngrams_[i].size(0)) * d;
      for (int64_t j = 0; j < d; ++j) x[j] += row[j];
    }
  }
}

SequenceState CpuEngine::fresh_state() const {
  SequenceState fresh;
  fresh.recent.assign(ngrams_.size(), 0);
  return fresh;
}

// The codes of the latest tokens after `count` more.
static void remember(std::vector<int64_t>& recent, const int64_t* ids, int64_t count) {
  const int64_t fresh = std::min(count, std::ssize(recent));
  std::rotate(recent.begin(), recent.begin() + fresh, recent.end());
  std::transform(ids + count - fresh, ids + count, recent.end() - fresh, [](int64_t id) { return id + 1; });
}

Tensor CpuEngine::run(const Tensor& ids, EngineState* state, const PassOptions& options) const {
  // Sequences go through the layers in groups, so that the activations of a batch are no larger than those of one long
  // chunk: about 64 MB for 1,024 tokens of 119m.
  constexpr int64_t kGroupFloats = 1 << 19;  // of the residual stream
  const int64_t B = ids.size(0), T = ids.size(1), d = width();
  const Lease lease(*this);
  Activations& a = *lease;
  std::vector<int64_t> lengths(B, T);
  if (options.lengths) std::copy_n(options.lengths->const_data_ptr<int64_t>(), B, lengths.begin());
  EngineState of_this_pass;
  if (state == nullptr) of_this_pass = initial_state(B);
  const std::span<SequenceState> sequences = state ? *state : of_this_pass;
  std::vector<std::vector<SsmState>> next_ssm(B);

  Tensor hidden = options.lengths ? at::zeros({B, T, d}, at::kFloat) : at::empty({B, T, d}, at::kFloat);
  a.backup.clear();
  a.next_ssm.clear();
  try {
    for (int64_t begin = 0, end = 0; begin < B; begin = end) {
      a.first.assign(1, 0);
      do {
        a.first.push_back(a.first.back() + lengths[end++]);
      } while (end < B && (options.trace || (a.first.back() + lengths[end]) * d <= kGroupFloats));
      const int64_t n = a.first.back();
      if (n == 0) continue;
      const Workers workers = n * vectors_per_token() <= kMaxGemvRows ? Workers::from_pool() : Workers::from_regions();
      Pass pass{workers, a, sequences.subspan(begin, end - begin), state != nullptr, options.trace, n, T};
      embed(pass, ids.narrow(0, begin, end - begin));
      run_layers(pass);
      normalize(pass, norm_);
      for (int64_t b = 0; b < pass.batch(); ++b)
        std::copy_n(a.normed.data() + a.first[b] * d, pass.tokens(b) * d,
                    hidden.mutable_data_ptr<float>() + (begin + b) * T * d);
      std::move(a.next_ssm.begin(), a.next_ssm.end(), next_ssm.begin() + begin);
    }
  } catch (...) {
    a.backup.restore();
    throw;
  }
  for (int64_t b = 0; state != nullptr && b < B; ++b) {
    if (lengths[b] == 0) continue;
    SequenceState& sequence = sequences[b];
    sequence.position += lengths[b];
    remember(sequence.recent, ids.const_data_ptr<int64_t>() + b * T, lengths[b]);
    for (KvWindow& window : sequence.attention) window.commit();
    if (!sequence.ssm.empty()) sequence.ssm = std::move(next_ssm[b]);
  }
  return hidden;
}

Tensor CpuEngine::logits(const Tensor& hidden) const {
  const Tensor rows = hidden.contiguous();
  std::vector<int64_t> shape = hidden.sizes().vec();
  shape.back() = vocab_size();
  Tensor out = at::empty(shape, at::kFloat);
  const int64_t n = rows.numel() / width();
  if (n == 0) return out;
  const Lease lease(*this);
  const Workers workers = n <= kMaxGemvRows ? Workers::from_pool() : Workers::from_regions();
  (*lease).gemv.run(workers, {product(head_, n, rows.const_data_ptr<float>(), out.mutable_data_ptr<float>())});
  return out;
}

}  // namespace pmnet
