// Letters: B rows, T steps of a call.
#include "eval/scorer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numbers>
#include <numeric>

#include "base/error.h"

namespace pmnet {

namespace {

constexpr int64_t kBytes = 256;
constexpr int64_t kMostSpecialIds = 1024;  // beside the bytes; a tokenizer's vocabulary has many more

}  // namespace

Scorer::Scorer(std::shared_ptr<const Engine> engine, int64_t rows) : engine_(std::move(engine)) {
  arrange(std::vector<int64_t>(rows, kNewRow));
}

void Scorer::arrange(const std::vector<int64_t>& from) {
  bool same = static_cast<int64_t>(from.size()) == rows();
  for (int64_t row = 0; same && row < rows(); ++row) same = from[row] == row;
  if (same) return;
  const SequenceState fresh = engine_->initial_state(1)[0];
  EngineState state;
  std::vector<int64_t> last_ids;
  for (const int64_t row : from) {
    state.push_back(row == kNewRow ? fresh : state_.at(row));
    last_ids.push_back(row == kNewRow ? engine_->bos_token_id() : last_ids_.at(row));
  }
  state_ = std::move(state);
  last_ids_ = std::move(last_ids);
}

Tensor Scorer::losses(const Tensor& ids, const Tensor& targets, const ScoreOptions& options) {
  const int64_t T = ids.size(1), chunk = options.chunk > 0 ? options.chunk : T;
  std::vector<Tensor> passes;
  for (int64_t begin = 0; begin < T; begin += chunk) {
    if (options.before_pass) options.before_pass();
    const int64_t count = std::min(chunk, T - begin);
    Trace trace;
    PassOptions pass{.trace = options.after_pass ? &trace : nullptr};
    if (options.lengths) pass.lengths = (*options.lengths - begin).clamp(0, count);
    passes.push_back(engine_->losses(ids.narrow(1, begin, count), targets.narrow(1, begin, count), &state_, pass));
    if (options.after_pass) options.after_pass(trace);
  }
  return passes.size() == 1 ? passes[0] : at::cat(passes, 1);
}

std::vector<std::vector<double>> Scorer::score(const std::vector<std::span<const int64_t>>& next,
                                               const ScoreOptions& options) {
  TORCH_CHECK(static_cast<int64_t>(next.size()) == rows(), "Scorer: ", next.size(), " rows of ids for ", rows(),
              " texts");
  const int64_t B = rows();
  size_t longest = 0;
  for (const auto& ids : next) longest = std::max(longest, ids.size());
  const auto T = static_cast<int64_t>(longest);
  std::vector<std::vector<double>> bits(B);
  if (T == 0) return bits;

  const Tensor ids = at::zeros({B, T}, at::kLong), targets = at::full({B, T}, -1, at::kLong);
  const Tensor lengths = at::empty({B}, at::kLong);
  auto id = ids.accessor<int64_t, 2>(), target = targets.accessor<int64_t, 2>();
  auto length = lengths.accessor<int64_t, 1>();
  bool padded = false;
  for (int64_t b = 0; b < B; ++b) {
    length[b] = static_cast<int64_t>(next[b].size());
    padded = padded || length[b] < T;
    for (int64_t t = 0; t < length[b]; ++t) {
      id[b][t] = t == 0 ? last_ids_[b] : next[b][t - 1];
      target[b][t] = next[b][t];
    }
    if (length[b] > 0) last_ids_[b] = next[b].back();
  }
  ScoreOptions passes = options;
  if (padded) passes.lengths = lengths;
  const Tensor nats = losses(ids, targets, passes).to(at::kCPU, at::kDouble);
  const auto nat = nats.accessor<double, 2>();
  for (int64_t b = 0; b < B; ++b)
    for (int64_t t = 0; t < length[b]; ++t) bits[b].push_back(nat[b][t] / std::numbers::ln2);
  return bits;
}

std::vector<double> Scorer::score(std::string_view bytes, const ScoreOptions& options) {
  const std::vector<int64_t> ids = byte_ids(bytes);
  return score({std::span<const int64_t>(ids)}, options).front();
}

std::vector<double> score_next(Session& session, std::string_view bytes) {
  const int64_t bos = session.engine().bos_token_id();
  if (!session.last_logits().defined()) session.feed(std::vector<int64_t>{bos});
  if (bytes.empty()) return {};
  const std::vector<int64_t> ids = byte_ids(bytes);
  const auto T = static_cast<int64_t>(ids.size());
  const Tensor first = session.last_logits().unsqueeze(1);                                 // [1,1,V]
  const Tensor rest = session.feed(ids).narrow(1, 0, T - 1);                               // [1,T-1,V]
  const Tensor log_p = at::cat({first, rest}, 1).log_softmax(-1).squeeze(0).to(at::kCPU);  // [T,V]
  const Tensor bits = log_p.gather(1, at::tensor(ids, at::kLong).unsqueeze(1)).to(at::kDouble) / -std::numbers::ln2;
  return {bits.const_data_ptr<double>(), bits.const_data_ptr<double>() + T};
}

std::vector<int64_t> byte_ids(std::string_view bytes) {
  std::vector<int64_t> ids;
  ids.reserve(bytes.size() + 1);  // callers may append EOS
  for (const char byte : bytes) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

double bits_per_byte(std::shared_ptr<const Engine> engine, std::string_view text, int64_t chunk) {
  const std::vector<double> bits = Scorer(std::move(engine)).score(text, {.chunk = chunk});
  return std::reduce(bits.begin(), bits.end()) / static_cast<double>(bits.size());
}

void require_byte_vocabulary(const Engine& engine, const std::string& name) {
  const int64_t vocabulary = engine.vocab_size();
  if (vocabulary < kBytes || vocabulary > kBytes + kMostSpecialIds)
    fail("{} has a vocabulary of {} ids, which are not bytes; expected a model whose ids 0 to 255 are the bytes", name,
         vocabulary);
  if (engine.bos_token_id() < 0 || engine.bos_token_id() >= vocabulary)
    fail("{} has no BOS to begin a text with: bos_token_id is {}, expected 0 to {}; set it in its config.json", name,
         engine.bos_token_id(), vocabulary - 1);
}

}  // namespace pmnet
